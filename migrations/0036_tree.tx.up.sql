-- The Merkle tree (RFC 6962) of each audit chain, built in the background from the leaves of its records, and its
-- signed checkpoints. docs/audit-format.md describes both.

CREATE TABLE audit_trees (
    chain    integer PRIMARY KEY,
    first    bigint NOT NULL, -- number of the record that is leaf 0
    size     bigint NOT NULL DEFAULT 0,
    root     bytea NOT NULL,
    grown_at timestamptz NOT NULL DEFAULT '-infinity'
);

-- 1 to 256 hashes of 32 bytes. A tile with 256 never changes, a shorter one only grows.
CREATE TABLE audit_tiles (
    chain  integer NOT NULL,
    level  integer NOT NULL,
    index  bigint NOT NULL,
    hashes bytea NOT NULL,
    PRIMARY KEY (chain, level, index)
);
ALTER TABLE audit_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL; -- hashes cannot be compressed

CREATE TABLE audit_checkpoints (
    chain     integer NOT NULL,
    size      bigint NOT NULL,
    note      text NOT NULL,
    signed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, size)
);

-- Extends a tree from one size to another. Returns false if it does not have the first size, because another host has
-- extended it. Fails with data_corrupted, and changes nothing, if a stored tile is not the beginning of the new one.
CREATE FUNCTION audit_grow(
    of_chain integer, from_size bigint, from_root bytea, to_size bigint, to_root bytea,
    levels integer[], indexes bigint[], tiles bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    written integer;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    UPDATE audit_trees SET size = to_size, root = to_root, grown_at = clock_timestamp()
        WHERE chain = of_chain AND size = from_size AND root = from_root;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO audit_tiles AS t (chain, level, index, hashes)
        SELECT of_chain, g.level, g.index, g.hashes FROM unnest(levels, indexes, tiles) AS g (level, index, hashes)
        ON CONFLICT (chain, level, index) DO UPDATE SET hashes = excluded.hashes
        WHERE substr(excluded.hashes, 1, octet_length(t.hashes)) = t.hashes;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(levels) THEN
        RAISE EXCEPTION 'a stored tile of audit chain % differs from the records', of_chain
            USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN true;
END $$;
