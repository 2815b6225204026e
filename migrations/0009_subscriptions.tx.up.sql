-- Ranked lists, and lists that hosts fetch from their publishers.
ALTER TABLE feeds
    DROP CONSTRAINT feeds_kind_check,
    ADD CONSTRAINT feeds_kind_check CHECK (kind IN ('bad', 'good', 'ranked')),
    ADD COLUMN fresh_until timestamptz; -- entries are out of date from then on; null: not while the list is in force

-- The names of ranked lists, packed by the first two bytes of their nodes: a row per name would take several times the
-- space. An import replaces all rows of its list. There is no foreign key, as in feed_entries.
CREATE TABLE feed_ranks (
    feed_id integer NOT NULL,
    prefix  bytea NOT NULL, -- bytes 1 and 2 of the nodes
    ranks   bytea NOT NULL, -- for each name, bytes 3 to 10 of its node, then its rank as a 32-bit integer
    PRIMARY KEY (prefix, feed_id)
);

-- Lists that hosts fetch regularly. A list has a row in feeds once it was fetched.
CREATE TABLE feed_subscriptions (
    name             text PRIMARY KEY, -- of the list
    sealed_url       bytea NOT NULL,   -- the URL may contain an access key
    source           text NOT NULL,    -- the URL without user, query and fragment
    kind             text NOT NULL CHECK (kind IN ('bad', 'good', 'ranked')),
    category         text NOT NULL,
    format           text NOT NULL,
    selected_column  text NOT NULL,    -- the column or member with the entities; empty: one with a usual name
    country          text NOT NULL,
    licence          text NOT NULL,
    every            interval NOT NULL,
    fresh_for        interval NOT NULL, -- after the publisher last confirmed the content
    expires_after    interval NOT NULL, -- likewise
    next_fetch_at    timestamptz NOT NULL,
    leased_until     timestamptz,       -- a process is fetching the list until then; null: none
    -- HTTP validators of the content in feeds; empty if there are none.
    etag             text NOT NULL DEFAULT '',
    last_modified    text NOT NULL DEFAULT '',
    confirmed_at     timestamptz,       -- when the content in feeds was last fetched or confirmed
    failing_since    timestamptz,       -- the first failure since then; null: the last fetch did not fail
    failures         integer NOT NULL DEFAULT 0,
    error            text NOT NULL DEFAULT '', -- of the last fetch
    -- The size of the version that is held back, and the size that an operator accepted. Null: none.
    held_entries     integer,
    accepted_entries integer
);
