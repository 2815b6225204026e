-- Overrides: verdicts that an account, or the operator for all accounts, set in advance for a value or a group of values.
-- A row never changes. Its MAC covers all other columns, and the audit log records when it was added and removed.
CREATE TABLE overrides (
    id            text PRIMARY KEY,
    account_id    text NOT NULL DEFAULT '', -- '': the operator's
    action        text NOT NULL CHECK (action IN ('allow', 'block')),
    kind          text NOT NULL,
    match         bytea NOT NULL, -- keyed hash of account, kind and normalised value
    subject       bytea,          -- the value's pseudonym in the account, for erasures
    masked        text NOT NULL,
    sealed_reason bytea NOT NULL,
    author        text NOT NULL,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    mac           bytea NOT NULL,
    UNIQUE (account_id, match)
);
CREATE INDEX overrides_by_expiry ON overrides (expires_at); -- pruned by it

-- The number of each account's latest change, so that hosts read only the overrides of accounts that changed. Numbers
-- rise in the order of commits.
CREATE TABLE override_changes (
    account_id text PRIMARY KEY,
    change     bigint NOT NULL
);
CREATE INDEX override_changes_by_number ON override_changes (change);

-- Notes a change of an account's overrides. Its lock lasts until the commit, so a host that has seen a number never
-- misses a lower one.
CREATE FUNCTION override_changed(of_account text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE override_changes IN SHARE ROW EXCLUSIVE MODE;
    number := (SELECT coalesce(max(change), 0) + 1 FROM override_changes);
    INSERT INTO override_changes AS c (account_id, change) VALUES (of_account, number)
    ON CONFLICT (account_id) DO UPDATE SET change = EXCLUDED.change;
END $$;

-- Adds an override and appends its entry to the chain. It replaces the one with the given id, '' if there is none, for
-- the same value, whose removal is recorded too. The key is '' if the operator adds
-- it. Returns why not, or an empty text.
CREATE FUNCTION override_add(
    of_chain integer, by_key text, at_time timestamptz, entry jsonb, added jsonb,
    replaces text, removed jsonb, max_overrides integer
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    o overrides := jsonb_populate_record(NULL::overrides, entry);
BEGIN
    PERFORM override_changed(o.account_id); -- before the head, because others may hold its lock
    PERFORM audit_lock(of_chain);
    IF by_key <> '' THEN
        PERFORM require_key(o.account_id, by_key, at_time);
    END IF;
    IF replaces <> coalesce((SELECT id FROM overrides WHERE account_id = o.account_id AND match = o.match), '') THEN
        RAISE EXCEPTION 'the override has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    IF replaces <> '' THEN
        DELETE FROM overrides WHERE id = replaces;
        PERFORM audit_append(of_chain, removed);
    ELSIF max_overrides > 0 AND (SELECT count(*) FROM overrides
            WHERE account_id = o.account_id AND expires_at > at_time) >= max_overrides THEN
        RETURN 'too many';
    END IF;
    INSERT INTO overrides SELECT o.*;
    PERFORM audit_append(of_chain, added);
    PERFORM pg_notify('assay', 'overrides');
    RETURN '';
END $$;

-- Removes an override that the host has read, and appends its entry to the chain.
-- Returns whether it was there.
CREATE FUNCTION override_remove(
    of_chain integer, of_account text, by_key text, at_time timestamptz, of_id text, of_mac bytea, removed jsonb
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM override_changed(of_account);
    PERFORM audit_lock(of_chain);
    IF by_key <> '' THEN
        PERFORM require_key(of_account, by_key, at_time);
    END IF;
    DELETE FROM overrides WHERE id = of_id AND account_id = of_account AND mac = of_mac;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM audit_append(of_chain, removed);
    PERFORM pg_notify('assay', 'overrides');
    RETURN true;
END $$;
