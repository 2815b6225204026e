-- More changes as functions, each one statement that commits by itself (see migration 0015): others wait for the rows
-- that they lock, and a host that stops between two statements would keep them.

-- Feedback ----------------------------------------------------------------------------------------------------------

-- Keeps an account's feedback on a check that the host has read, in place of earlier feedback, and makes it the
-- account's vote on the entity; without a label, deletes it. Returns whether layer scores are kept with it.
--
-- It locks the record before the sighting, as an erasure does: an erasure that waited for the sighting would keep
-- checks waiting for the head.
CREATE FUNCTION give_feedback(
    of_chain integer, of_seq bigint, of_ref text, of_account text, of_pseudonym bytea, of_type text,
    checked_at timestamptz,
    of_node bytea, -- of the entity; null for a check from before migration 0006, which has no vote
    new_label text, note bytea,
    scores jsonb, -- null: those of the earlier feedback stay
    at_time timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    vote text := new_label;
    scored boolean := false;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    PERFORM 1 FROM audit_records
        WHERE chain = of_chain AND seq = of_seq AND recorded_at = checked_at AND ref = of_ref
            AND account_id = of_account
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the check was erased or pruned' USING ERRCODE = 'serialization_failure';
    END IF;
    IF vote IS NULL THEN -- the account's latest other report decides
        vote := (SELECT f.label FROM feedback AS f
            WHERE f.chain = of_chain AND f.account_id = of_account AND f.pseudonym = of_pseudonym AND f.seq <> of_seq
            ORDER BY f.given_at DESC, f.ref DESC LIMIT 1);
    ELSIF of_node IS NOT NULL AND EXISTS (
        SELECT 1 FROM graph_contributions AS c
        WHERE c.chain = of_chain AND c.seq >= of_seq AND c.seq - c.items < of_seq
    ) AND NOT EXISTS (
        SELECT 1 FROM graph_forgotten AS f
        WHERE f.chain = of_chain AND f.account_id IN ('', of_account) AND f.node IN ('', of_node)
            AND f.up_to >= of_seq
    ) THEN -- the sighting of a check that is not in the graph yet begins with the vote
        INSERT INTO graph_sightings
            (node, account_id, kind, checks, blocked, reviewed, first_seen, last_seen, label)
        VALUES (of_node, of_account, of_type, 0, 0, 0, checked_at, checked_at, vote)
        ON CONFLICT (node, account_id) DO NOTHING;
    END IF;
    IF of_node IS NOT NULL THEN
        UPDATE graph_sightings SET label = vote WHERE node = of_node AND account_id = of_account;
    END IF;
    IF new_label IS NULL THEN
        DELETE FROM feedback WHERE chain = of_chain AND seq = of_seq;
    ELSE
        INSERT INTO feedback AS f
            (chain, seq, ref, account_id, pseudonym, type, label, sealed_note, layers, given_at)
        VALUES (of_chain, of_seq, of_ref, of_account, of_pseudonym, of_type, new_label, note, scores, at_time)
        ON CONFLICT (chain, seq) DO UPDATE SET label = EXCLUDED.label, sealed_note = EXCLUDED.sealed_note,
            layers = coalesce(EXCLUDED.layers, f.layers), given_at = EXCLUDED.given_at
        RETURNING f.layers IS NOT NULL INTO scored;
    END IF;
    RETURN scored;
END $$;

-- Webhook endpoints -------------------------------------------------------------------------------------------------
--
-- The outcomes of deliveries and changes of the account's plan wait for an endpoint's row.

-- Sets an account's endpoint with its only secret, and enables it.
CREATE FUNCTION set_endpoint(of_account text, new_url text, new_secret bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    INSERT INTO webhook_endpoints (account_id, url, sealed_secret) VALUES (of_account, new_url, new_secret)
    ON CONFLICT (account_id) DO UPDATE
    SET url = EXCLUDED.url, sealed_secret = EXCLUDED.sealed_secret, created_at = EXCLUDED.created_at,
        failing_since = NULL, failed_at = NULL, disabled_at = NULL, disabled_reason = NULL;
    DELETE FROM webhook_old_secrets WHERE account_id = of_account;
END $$;

-- Replaces the secret of an endpoint. The replaced one signs until the given time, if any, as do the newest earlier
-- ones, most_old in all. Returns false if there is no endpoint.
CREATE FUNCTION rotate_secret(of_account text, new_secret bytea, overlap interval, most_old integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    current_secret bytea;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    SELECT sealed_secret INTO current_secret FROM webhook_endpoints WHERE account_id = of_account FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF most_old > 0 THEN
        INSERT INTO webhook_old_secrets (account_id, sealed_secret, replaced_at, ends_at)
        VALUES (of_account, current_secret, clock_timestamp(), now() + overlap);
    END IF;
    DELETE FROM webhook_old_secrets WHERE account_id = of_account AND replaced_at NOT IN (
        SELECT s.replaced_at FROM webhook_old_secrets AS s WHERE s.account_id = of_account AND s.ends_at > now()
        ORDER BY s.replaced_at DESC LIMIT most_old);
    UPDATE webhook_endpoints SET sealed_secret = new_secret WHERE account_id = of_account;
    RETURN true;
END $$;

-- Removes an account's endpoint, fails its pending events and deletes all payloads. Returns false if there is none.
CREATE FUNCTION remove_endpoint(of_account text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    home integer := (SELECT a.chain FROM accounts AS a WHERE a.id = of_account);
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    DELETE FROM webhook_endpoints WHERE account_id = of_account;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE webhook_events
    SET sealed_payload = NULL, state = 'failed', next_attempt_at = NULL, leased_until = NULL,
        settled_at = coalesce(settled_at, now())
    WHERE chain = home AND account_id = of_account AND sealed_payload IS NOT NULL;
    RETURN true;
END $$;

-- Lists -------------------------------------------------------------------------------------------------------------

-- Rewrites the table of entries when most of its pages are nearly empty. VACUUM only returns the pages at the end of a
-- table. Postgres estimates costs from the number of pages, and would scan the whole table even for a small lookup.
-- Lookups wait for the rewrite, so it is left to the next import if lists change at the moment (of_lock is held) or
-- others read the table for long.
CREATE FUNCTION compact_entries(of_lock bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    min_pages    CONSTANT integer := 1000; -- smaller tables are not worth compacting
    min_per_page CONSTANT integer := 10;   -- entries; a full page has several times as many
    pages bigint := pg_relation_size('feed_entries') / 8192;
BEGIN
    IF pages <= min_pages OR (SELECT count(*) FROM feed_entries) > pages * min_per_page
            OR NOT pg_try_advisory_xact_lock(of_lock) THEN
        RETURN;
    END IF;
    CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM feed_entries;
    -- A waiting exclusive lock blocks every later lookup.
    PERFORM set_config('lock_timeout', '200ms', true);
    BEGIN
        LOCK TABLE feed_entries IN ACCESS EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    TRUNCATE feed_entries;
    INSERT INTO feed_entries SELECT * FROM kept;
    ANALYZE feed_entries;
END $$;
