-- Exports and erasures of subjects with many checks. Hosts work on them in the background, in steps.
CREATE TABLE subject_requests (
    chain       integer NOT NULL,
    id          text NOT NULL,
    account_id  text NOT NULL,
    key_id      text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('export', 'erasure')),
    state       text NOT NULL CHECK (state IN ('running', 'done', 'failed', 'deleted')),
    subject     bytea NOT NULL,             -- the subject's tombstone, as in erasures
    sealed      bytea,                      -- the pseudonym and the node, encrypted; null unless running
    total       integer NOT NULL,           -- the subject's checks when the request was made
    done        integer NOT NULL DEFAULT 0, -- checks exported
    since       bigint NOT NULL,            -- seq of the head when the request was made
    at_seq      bigint NOT NULL DEFAULT 0,  -- of the last record exported
    lease_until timestamptz NOT NULL,       -- until then, one host works on it
    created_at  timestamptz NOT NULL,
    settled_at  timestamptz,
    PRIMARY KEY (chain, id),
    CHECK ((sealed IS NOT NULL) = (state = 'running')),
    CHECK ((settled_at IS NULL) = (state = 'running'))
);
CREATE UNIQUE INDEX subject_requests_running ON subject_requests (chain, account_id, kind, subject)
    WHERE state = 'running';

-- The pages of finished exports, encrypted.
CREATE TABLE export_parts (
    chain  integer NOT NULL,
    id     text NOT NULL,
    after  bytea NOT NULL, -- the tombstone of the reference of the check before; empty for the first part
    sealed bytea NOT NULL,
    PRIMARY KEY (chain, id, after)
);

-- Stores a part of an export and renews the host's lease. Returns false if the export was deleted, or another host has
-- stored the part.
CREATE FUNCTION store_export_part(
    of_chain integer, of_id text, from_seq bigint, to_seq bigint, checks integer, after_check bytea, part bytea,
    is_last boolean, lease interval
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    UPDATE subject_requests
    SET at_seq = to_seq, done = done + checks, lease_until = now() + lease,
        state = CASE WHEN is_last THEN 'done' ELSE 'running' END, sealed = CASE WHEN NOT is_last THEN sealed END,
        settled_at = CASE WHEN is_last THEN now() END
    WHERE chain = of_chain AND id = of_id AND state = 'running' AND at_seq = from_seq;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO export_parts (chain, id, after, sealed) VALUES (of_chain, of_id, after_check, part);
    RETURN true;
END $$;

-- Deletes an account's exports of a subject, finished or not. Returns the number that had data.
CREATE FUNCTION delete_exports(of_chain integer, of_account text, of_subject bytea) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    ids text[];
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    UPDATE subject_requests SET state = 'deleted', sealed = NULL, settled_at = coalesce(settled_at, now())
        WHERE chain = of_chain AND account_id = of_account AND subject = of_subject AND kind = 'export'
            AND state IN ('running', 'done');
    ids := ARRAY(SELECT id FROM subject_requests
        WHERE chain = of_chain AND account_id = of_account AND subject = of_subject AND kind = 'export');
    DELETE FROM export_parts WHERE chain = of_chain AND id = ANY (ids);
    RETURN cardinality(ids);
END $$;

-- Deletes up to most links of a node with more than that, as graph_forget_node does, so that the head is not locked
-- long. Returns their number.
CREATE FUNCTION graph_forget_links(of_chain integer, of_account text, of_node bytea, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    others bytea[];
    counts integer[];
BEGIN
    IF (SELECT count(*) <= most FROM (
            SELECT FROM graph_edges WHERE node = of_node AND account_id = of_account LIMIT most + 1) AS e) THEN
        RETURN 0;
    END IF;
    PERFORM set_config('lock_timeout', '3s', true);
    PERFORM FROM graph_progress WHERE chain = of_chain FOR UPDATE;
    PERFORM audit_lock(of_chain);
    others := ARRAY(SELECT other FROM graph_edges WHERE node = of_node AND account_id = of_account LIMIT most);
    WITH deleted AS (
        DELETE FROM graph_edges WHERE node = of_node AND account_id = of_account AND other = ANY (others)
        RETURNING other, checks
    )
    SELECT array_agg(other), array_agg(checks) FROM deleted INTO others, counts;
    DELETE FROM graph_edges WHERE node = ANY (others) AND other = of_node AND account_id = of_account;
    UPDATE graph_sightings AS g SET checks = g.checks - l.checks
        FROM unnest(others, counts) AS l (other, checks)
        WHERE g.node = ANY (others) AND g.node = l.other AND g.account_id = of_account
            AND g.kind NOT IN ('domain', 'email', 'phone', 'iban');
    DELETE FROM graph_sightings
        WHERE node = ANY (others) AND account_id = of_account AND checks <= 0
            AND kind NOT IN ('domain', 'email', 'phone', 'iban');
    RETURN coalesce(cardinality(others), 0);
END $$;
