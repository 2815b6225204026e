-- Lists of known bad and known good entities, as operators import them.
CREATE TABLE feeds (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    kind        text NOT NULL CHECK (kind IN ('bad', 'good')),
    category    text NOT NULL DEFAULT '', -- a published threat, for entries that name none of their own
    source      text NOT NULL,            -- the file or URL that it was read from
    format      text NOT NULL,
    licence     text NOT NULL DEFAULT '',
    entries     integer NOT NULL,
    version     integer NOT NULL,         -- counts the imports
    imported_at timestamptz NOT NULL,
    expires_at  timestamptz               -- from then on it has no effect; null: never
);

-- What the lists hold now: an import leaves nothing of the one before it. So an entry was last seen when its list was imported.
-- Public lists need no hiding, and similarity compares the names as they are; the node is the same keyed hash as in the
-- graph, so that an entity which hangs on a listed one can be told. No foreign key: entries of a list that was withdrawn have no
-- effect, and are deleted after.
CREATE TABLE feed_entries (
    feed_id    integer NOT NULL,
    node       bytea NOT NULL,
    type       text NOT NULL CHECK (type IN ('domain', 'email', 'phone', 'iban')),
    value      text NOT NULL,
    name       text NOT NULL,    -- what similarity compares: a domain's registrable label, an address's mailbox
    page       boolean NOT NULL, -- only an address of a page on this host was listed
    category   text NOT NULL,
    first_seen timestamptz NOT NULL,
    PRIMARY KEY (feed_id, node)
);
CREATE INDEX feed_entries_by_node ON feed_entries (node);
