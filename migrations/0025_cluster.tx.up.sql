-- Functions of earlier migrations, with statements that Citus understands.

-- What audit_lock sets in the transaction.
CREATE FUNCTION audit_settings(patience text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience, true);
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
END $$;

-- As in migration 0016, but a cluster delegates this call of audit_lock to the chain's machine, so the settings hold
-- there too. Citus does not delegate an expression such as PERFORM audit_lock(...).
CREATE OR REPLACE FUNCTION audit_lock_all(patience text) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    all_chains integer[] := ARRAY(SELECT DISTINCT chain FROM audit_heads ORDER BY chain);
    one integer;
BEGIN
    PERFORM audit_settings(patience);
    FOREACH one IN ARRAY all_chains LOOP
        BEGIN
            PERFORM * FROM audit_lock(one, patience);
        EXCEPTION WHEN data_corrupted THEN -- as reports say that verify the chain
        END;
    END LOOP;
    RETURN all_chains;
END $$;

-- Removes an account's endpoint, fails its pending events and deletes all payloads. Returns false if there is none.
-- As in migration 0021, but without now() within coalesce.
CREATE OR REPLACE FUNCTION remove_endpoint(of_account text) RETURNS boolean LANGUAGE plpgsql AS $$
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
        settled_at = least(settled_at, now()) -- null counts as later
    WHERE chain = home AND account_id = of_account AND sealed_payload IS NOT NULL;
    RETURN true;
END $$;
