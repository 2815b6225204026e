-- Lists of known bad and known good entities, imported by operators.
CREATE TABLE feeds (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    kind        text NOT NULL CHECK (kind IN ('bad', 'good')),
    category    text NOT NULL DEFAULT '', -- a threat category, for entries without their own
    source      text NOT NULL,            -- the file or URL that was imported
    format      text NOT NULL,
    licence     text NOT NULL DEFAULT '',
    entries     integer NOT NULL,
    version     integer NOT NULL,         -- number of imports
    imported_at timestamptz NOT NULL,
    expires_at  timestamptz               -- the list has no effect from then on; null: never
);

-- The current entries of the lists. An import replaces all entries of its list. Values are stored in the clear: lists
-- are public, and similarity compares names. The node is the same keyed hash as in the graph, so that entities with a
-- listed parent can be found. There is no foreign key, because entries of a withdrawn list are deleted later.
CREATE TABLE feed_entries (
    feed_id    integer NOT NULL,
    node       bytea NOT NULL,
    type       text NOT NULL CHECK (type IN ('domain', 'email', 'phone', 'iban')),
    value      text NOT NULL,
    name       text NOT NULL,    -- compared by similarity: a domain's registrable label or an address's mailbox
    page       boolean NOT NULL, -- the list has only a page on this host, not the whole host
    category   text NOT NULL,
    first_seen timestamptz NOT NULL,
    PRIMARY KEY (feed_id, node)
);
CREATE INDEX feed_entries_by_node ON feed_entries (node);
