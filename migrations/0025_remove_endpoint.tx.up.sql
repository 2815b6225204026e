-- Removes an account's endpoint, fails its pending events and deletes all payloads. Returns false if there is none.
-- As in migration 0021, but Citus accepts no now() within coalesce.
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
