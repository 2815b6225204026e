-- As in migration 0029, but it also deletes reviews, and it locks the head last, because checks wait for the head until
-- the commit is on disk. A check recorded just before that may add to the graph again: the next step erases it too, if
-- it is not to be kept.
CREATE OR REPLACE FUNCTION audit_erase(
    of_chain integer, of_account text, by_key text, at_time timestamptz,
    of_pseudonym bytea, of_node bytea, subject_tombstone bytea,
    -- The records, in ascending order, and the tombstones of their references.
    seqs bigint[], times timestamptz[], refs text[], leaves bytea[], tombstones bytea[],
    checks integer, -- how many of them are checks
    entry jsonb,
    OUT events bigint, OUT sightings bigint, OUT links bigint, OUT recorded boolean
) LANGUAGE plpgsql AS $$
DECLARE
    n integer := cardinality(seqs);
    found_rows integer;
    erasure bigint;
    told bytea[]; -- the keys of the answers about the subject
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    events := 0;
    IF n > 0 THEN
        -- Its place stays in the chain, with leaf and hash.
        UPDATE audit_records AS r
        SET kind = 'erased', at = NULL, ref = NULL, account_id = '', key_id = '', type = '', pseudonym = NULL,
            nonce = NULL, score = 0, verdict = '', revision = 0, digest = NULL, sealed_node = NULL
        FROM unnest(seqs, times, refs, leaves) AS g (seq, recorded_at, ref, leaf)
        WHERE r.chain = of_chain AND r.seq = g.seq AND r.recorded_at = g.recorded_at AND r.ref = g.ref
            AND r.leaf = g.leaf AND r.pseudonym = of_pseudonym AND r.account_id = of_account;
        GET DIAGNOSTICS found_rows = ROW_COUNT;
        IF found_rows <> n THEN
            RAISE EXCEPTION '% of % audit records have changed', n - found_rows, n
                USING ERRCODE = 'serialization_failure';
        END IF;
        -- A delivery in progress finds its event deleted when it ends, and stores nothing.
        DELETE FROM webhook_events WHERE chain = of_chain AND ref = ANY (refs);
        GET DIAGNOSTICS events = ROW_COUNT;
        -- After the records: feedback is given, and a review asked for, under a lock on the record.
        DELETE FROM feedback WHERE chain = of_chain AND seq = ANY (seqs);
        DELETE FROM reviews WHERE chain = of_chain AND seq = ANY (seqs);
        -- Looked for before the head is locked, and deleted afterwards: a batch that replaces one holds the head's
        -- lock.
        told := ARRAY(SELECT a.key FROM answers AS a
            WHERE a.chain = of_chain AND a.account_id = of_account AND of_pseudonym = ANY (a.subjects));
    END IF;
    -- A host may be applying contributions to the graph: wait for that.
    PERFORM FROM graph_progress WHERE chain = of_chain FOR UPDATE;
    sightings := 0;
    links := 0;
    IF of_node IS NOT NULL THEN
        SELECT * INTO sightings, links FROM graph_forget_node(of_account, of_node);
    END IF;
    erasure := (audit_lock(of_chain)).seq + 1;
    PERFORM require_key(of_account, by_key, at_time);
    DELETE FROM answers WHERE chain = of_chain AND account_id = of_account AND key = ANY (told);
    recorded := n > 0 OR sightings + links > 0;
    IF NOT recorded THEN
        RETURN;
    END IF;
    INSERT INTO erased_records (chain, seq, leaf, erasure, ref)
        SELECT of_chain, g.seq, g.leaf, erasure, g.ref FROM unnest(seqs, leaves, tombstones) AS g (seq, leaf, ref);
    INSERT INTO erasures (chain, seq, subject, checks) VALUES (of_chain, erasure, subject_tombstone, checks);
    PERFORM audit_append(of_chain, entry);
END $$;

-- As in migration 0037, without locking the head: links are not in the chain.
CREATE OR REPLACE FUNCTION graph_forget_links(of_chain integer, of_account text, of_node bytea, most integer)
RETURNS bigint LANGUAGE plpgsql AS $$
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
