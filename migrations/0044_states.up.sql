-- Who may call, and how much, becomes part of the audit log: each change of an account or an API key appends a record
-- to audit chain 1000000 in the same transaction. The record has the SHA-256 of the row. Verification compares the rows
-- with the last record of each, and computes the digests by itself (stored_states.sql in package store).
--
-- The chain is apart from those of checks, because its records must stay as long as the rows. Its head is locked after
-- all others, so its number is above theirs.
--
-- If the migration is interrupted, it begins again.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_heads WHERE chain = 1000000) THEN
        INSERT INTO audit_heads (chain, seq, hash)
        VALUES (1000000, 0, sha256(convert_to('assay audit chain 1000000, version 1', 'UTF8')));
    END IF;
END $$;

--bun:split
-- A field of a record's encoding: its length, then its bytes.
CREATE OR REPLACE FUNCTION audit_field(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int4send(octet_length(value)) || value;
$$;

--bun:split
-- Appends a record of the state of an account or a key, or that it was removed if the digest is null.
CREATE OR REPLACE FUNCTION record_state(
    of_type text, of_account text, of_key text, state text, amount integer, number bigint, digest bytea
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := date_trunc('milliseconds', clock_timestamp());
    at text := to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
    nonce bytea := uuid_send(gen_random_uuid());
    ref text := 'state_' || replace(gen_random_uuid()::text, '-', '');
    content bytea := '\x01';
    part text;
BEGIN
    FOREACH part IN ARRAY ARRAY['state', at, ref, of_account, of_key, of_type, ''] LOOP -- the last is the pseudonym
        content := content || audit_field(convert_to(part, 'UTF8'));
    END LOOP;
    content := content || int8send(amount) || audit_field(convert_to(state, 'UTF8')) || int8send(number)
        || audit_field(coalesce(digest, ''));
    PERFORM audit_append(1000000, jsonb_build_object('recorded_at', moment, 'at', at, 'kind', 'state', 'ref', ref,
        'account_id', of_account, 'key_id', of_key, 'type', of_type, 'nonce', '\x' || encode(nonce, 'hex'),
        'score', amount, 'verdict', state, 'revision', number, 'digest', '\x' || encode(digest, 'hex'),
        'leaf', '\x' || encode(sha256('\x00' || nonce || content), 'hex')));
END $$;

--bun:split
-- Records the state of an account after a change.
CREATE OR REPLACE FUNCTION record_account(of_account text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    a accounts;
BEGIN
    SELECT * INTO a FROM accounts WHERE id = of_account;
    PERFORM record_state('account', a.id, '', a.plan, a.quota, 0, sha256(convert_to(jsonb_build_array('account', a.id,
        a.plan, a.quota, encode(a.salt, 'hex'), a.chain, extract(epoch FROM a.created_at)::text)::text, 'UTF8')));
END $$;

--bun:split
-- Records the state of a key after a change, with the time in milliseconds at which it ends or has ended; 0: none. Its
-- row may be deleted 30 days later.
CREATE OR REPLACE FUNCTION record_key(of_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k api_keys;
    l key_limits;
BEGIN
    SELECT * INTO k FROM api_keys WHERE id = of_key;
    SELECT * INTO l FROM key_limits WHERE key_id = of_key;
    PERFORM record_state('key', k.account_id, k.id, k.state, 0,
        coalesce((extract(epoch FROM least(k.ended_at, k.expires_at)) * 1000)::bigint, 0),
        sha256(convert_to(jsonb_build_array('key', k.id, k.account_id, k.name, encode(k.hash, 'hex'), k.hint, k.state,
            extract(epoch FROM k.created_at)::text, extract(epoch FROM k.ended_at)::text,
            extract(epoch FROM k.expires_at)::text, l.scopes, l.networks, extract(epoch FROM l.lifetime)::text,
            l.test)::text, 'UTF8')));
END $$;

--bun:split
-- Records some accounts and keys that have no record, and returns their number.
CREATE OR REPLACE FUNCTION take_over_states(most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found text[] := ARRAY(SELECT a.id FROM accounts AS a WHERE a.id NOT IN (SELECT r.account_id FROM audit_records AS r
        WHERE r.chain = 1000000 AND r.kind = 'state' AND r.type = 'account') LIMIT most);
    one text;
BEGIN
    FOREACH one IN ARRAY found LOOP
        PERFORM record_account(one);
    END LOOP;
    IF cardinality(found) > 0 THEN
        RETURN cardinality(found);
    END IF;
    found := ARRAY(SELECT k.id FROM api_keys AS k WHERE k.id NOT IN (SELECT r.key_id FROM audit_records AS r
        WHERE r.chain = 1000000 AND r.kind = 'state' AND r.type = 'key') LIMIT most);
    FOREACH one IN ARRAY found LOOP
        PERFORM record_key(one);
    END LOOP;
    RETURN cardinality(found);
END $$;

--bun:split
-- As in migration 0015, with a record. The account's own chain is locked first, because other functions do so.
CREATE OR REPLACE FUNCTION insert_account(account jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts (id, plan, quota, salt, chain)
    SELECT id, plan, quota, salt, chain FROM jsonb_populate_record(NULL::accounts, account);
    PERFORM audit_lock((account ->> 'chain')::integer);
    PERFORM record_account(account ->> 'id');
END $$;

--bun:split
-- Sets the monthly quota of an account until its plan changes. Returns whether there is the account.
CREATE OR REPLACE FUNCTION set_quota(of_account text, new_quota integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(of_account);
BEGIN
    IF a.id IS NULL THEN
        RETURN false;
    END IF;
    UPDATE accounts SET quota = new_quota WHERE id = a.id;
    PERFORM record_account(a.id);
    PERFORM pg_notify('assay', 'keys');
    RETURN true;
END $$;

--bun:split
-- As in migration 0028, with records.
CREATE OR REPLACE FUNCTION add_key(
    key jsonb, replaces text, overlap_ends timestamptz, max_keys integer, at_time timestamptz, plans jsonb,
    serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(key ->> 'account_id');
    replaced_name text;
    limits key_limits := jsonb_populate_record(NULL::key_limits, key -> 'limits');
    ends timestamptz;
BEGIN
    IF replaces <> '' THEN
        SELECT name INTO replaced_name FROM api_keys WHERE id = replaces AND account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time);
        IF NOT FOUND THEN
            RETURN 'no such key';
        END IF;
        key := key || jsonb_build_object('name', replaced_name);
        SELECT * INTO limits FROM key_limits WHERE key_id = replaces;
    ELSIF NOT keys_enabled(a, plans, serving) THEN
        RETURN 'the subscription has ended';
    END IF;
    IF (SELECT count(*) FROM api_keys WHERE account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time)) >= max_keys THEN
        RETURN 'too many keys';
    END IF;
    PERFORM insert_key(key);
    IF limits.test IS NOT NULL THEN
        INSERT INTO key_limits (key_id, scopes, networks, lifetime, test)
        VALUES (key ->> 'id', limits.scopes, limits.networks, limits.lifetime, limits.test);
        IF limits.lifetime IS NOT NULL THEN
            ends := at_time + limits.lifetime;
            UPDATE api_keys SET expires_at = ends WHERE id = key ->> 'id';
        END IF;
    END IF;
    PERFORM record_key(key ->> 'id');
    IF replaces <> '' THEN
        -- A key that is replaced twice expires at the earlier time.
        UPDATE api_keys SET expires_at = least(expires_at, overlap_ends) WHERE id = replaces;
        PERFORM record_key(replaces);
        PERFORM pg_notify('assay', 'keys');
    END IF;
    RETURN '';
END $$;

--bun:split
-- As in migration 0015, with a record.
CREATE OR REPLACE FUNCTION revoke_key(of_key text, of_account text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock((SELECT account_id FROM api_keys
        WHERE id = of_key AND (of_account = '' OR account_id = of_account)));
BEGIN
    IF of_account <> '' AND EXISTS (SELECT FROM api_keys WHERE id = of_key AND account_id = a.id AND state = 'valid')
            AND NOT EXISTS (SELECT FROM api_keys
                WHERE account_id = a.id AND state = 'valid' AND expires_at IS NULL AND id <> of_key) THEN
        RETURN 'last key';
    END IF;
    UPDATE api_keys SET state = 'revoked', ended_at = now() WHERE id = of_key AND account_id = a.id AND state = 'valid';
    IF NOT FOUND THEN
        RETURN 'no such key';
    END IF;
    PERFORM record_key(of_key);
    PERFORM pg_notify('assay', 'keys');
    RETURN '';
END $$;

--bun:split
-- As in migration 0015, with records.
CREATE OR REPLACE FUNCTION set_plan(a accounts, new_plan text, plans jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    terms jsonb := plans -> new_plan;
    ended text[];
    one text;
BEGIN
    IF terms IS NULL THEN
        RAISE EXCEPTION 'there is no plan "%"', new_plan USING ERRCODE = 'no_data_found';
    END IF;
    -- An operator may have raised the quota, so it changes only with the plan.
    UPDATE accounts SET plan = new_plan, quota = (terms ->> 'quota')::integer WHERE id = a.id AND plan <> new_plan;
    IF FOUND THEN
        PERFORM record_account(a.id);
    END IF;
    ended := ARRAY(SELECT id FROM api_keys WHERE account_id = a.id AND state = 'cancelled' ORDER BY id);
    UPDATE api_keys SET state = 'valid', ended_at = NULL WHERE account_id = a.id AND state = 'cancelled';
    FOREACH one IN ARRAY ended LOOP
        PERFORM record_key(one);
    END LOOP;
    IF NOT (terms ->> 'webhooks')::boolean THEN
        DELETE FROM webhook_endpoints WHERE account_id = a.id;
    END IF;
    PERFORM pg_notify('assay', 'keys');
END $$;

--bun:split
-- As in migration 0015, with records.
CREATE OR REPLACE FUNCTION apply_subscriptions(of_account text, plans jsonb, serving text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    a accounts;
    new_plan text;
    ending text[];
    one text;
BEGIN
    PERFORM FROM webhook_endpoints WHERE account_id = of_account FOR UPDATE;
    a := account_lock(of_account);
    IF NOT keys_enabled(a, plans, serving) THEN
        ending := ARRAY(SELECT id FROM api_keys WHERE account_id = a.id AND state = 'valid' ORDER BY id);
        UPDATE api_keys SET state = 'cancelled', ended_at = now() WHERE account_id = a.id AND state = 'valid';
        FOREACH one IN ARRAY ending LOOP
            PERFORM record_key(one);
        END LOOP;
        PERFORM pg_notify('assay', 'keys');
        RETURN;
    END IF;
    SELECT plan INTO new_plan FROM billing_subscriptions WHERE account_id = a.id AND status = ANY (serving)
        ORDER BY changed_at DESC, id LIMIT 1;
    IF FOUND THEN -- otherwise the account has a free plan
        PERFORM set_plan(a, new_plan, plans);
    END IF;
END $$;

--bun:split
-- As in migration 0020, with records.
CREATE OR REPLACE FUNCTION claim_key(
    checkout jsonb, checkout_before text, replaces text, key jsonb, at_time timestamptz, plans jsonb, serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c billing_checkouts := jsonb_populate_record(NULL::billing_checkouts, checkout);
    a accounts;
    used boolean;
    ended boolean;
BEGIN
    PERFORM FROM billing_checkouts AS b WHERE id = c.id AND b::text = checkout_before FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkout has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    a := account_lock(c.account_id);
    IF replaces <> '' THEN
        -- No use is missed, because a check with the key would hold the lock of the account's chain.
        used := EXISTS (SELECT FROM key_uses AS u WHERE u.chain = a.chain AND u.key_id = replaces);
        UPDATE api_keys SET state = 'revoked', ended_at = now()
        WHERE id = replaces AND state = 'valid' AND expires_at IS NULL AND last_used_at IS NULL AND NOT used;
        IF NOT FOUND THEN
            RETURN 'in use';
        END IF;
        PERFORM record_key(replaces);
        PERFORM pg_notify('assay', 'keys');
    END IF;
    ended := NOT keys_enabled(a, plans, serving);
    PERFORM insert_key(key || CASE WHEN ended THEN jsonb_build_object('state', 'cancelled', 'ended_at', at_time)
        ELSE jsonb_build_object('state', 'valid') END);
    PERFORM record_key(key ->> 'id');
    UPDATE billing_checkouts SET state = c.state, key_id = c.key_id, reissues = c.reissues, claimed_at = c.claimed_at
        WHERE id = c.id;
    RETURN CASE WHEN ended THEN 'ended' ELSE '' END;
END $$;

--bun:split
-- In small transactions, because changes of keys wait for the chain's head.
DO $$
BEGIN
    WHILE take_over_states(100) > 0 LOOP
        COMMIT;
    END LOOP;
END $$;
