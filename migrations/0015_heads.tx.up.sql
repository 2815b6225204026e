-- Everything besides checks that writes to an audit chain, or that checks must not miss, as functions. Each is one
-- statement that commits by itself, so a host that stops at any moment holds no lock that a check waits for. Hosts read
-- and compute first. A function then takes the locks, verifies what the host has read, and writes. If something has
-- changed meanwhile it fails with serialization_failure, and the host starts again.
--
-- What may wait long is locked before the heads, and heads are locked in ascending order.

-- Locks the heads of all chains in ascending order, and returns the numbers of the chains.
CREATE FUNCTION audit_lock_all(patience text) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    all_chains integer[] := ARRAY(SELECT DISTINCT chain FROM audit_heads ORDER BY chain);
    one integer;
BEGIN
    FOREACH one IN ARRAY all_chains LOOP
        PERFORM audit_lock(one, patience);
    END LOOP;
    RETURN all_chains;
END $$;

-- Appends one record to a chain and returns its number. The entry holds the columns of audit_records that do not depend
-- on the record's place.
CREATE FUNCTION audit_append(of_chain integer, entry jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    head audit_heads := audit_lock(of_chain);
    r audit_records := jsonb_populate_record(NULL::audit_records, entry);
BEGIN
    r.chain := of_chain;
    r.seq := head.seq + 1;
    r.hash := sha256('\x01' || head.hash || int4send(r.chain) || int8send(r.seq) || r.leaf);
    INSERT INTO audit_records SELECT r.*;
    UPDATE audit_heads SET seq = r.seq, hash = r.hash WHERE chain = of_chain AND seq = head.seq;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the head of audit chain % moved under its lock', of_chain;
    END IF;
    RETURN r.seq;
END $$;

-- Privacy ---------------------------------------------------------------------------------------------------------

-- Fails with invalid_authorization_specification unless the key may be used at the given time.
CREATE FUNCTION require_key(of_account text, of_key text, at_time timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM api_keys WHERE id = of_key AND account_id = of_account AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time)) THEN
        RAISE EXCEPTION 'the key is not valid' USING ERRCODE = 'invalid_authorization_specification';
    END IF;
END $$;

-- Erases records of a subject that the host has read, with their webhook events and feedback and the subject's node in
-- the reputation graph, and appends the entry that documents it. Returns what was deleted besides the records. Without
-- records, an entry is appended only if the graph held something.
CREATE FUNCTION audit_erase(
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
        -- After the records: feedback is given under a lock on its record.
        DELETE FROM feedback WHERE chain = of_chain AND seq = ANY (seqs);
    END IF;
    -- A host may be applying contributions to the graph, so wait for that before locking the head. The graph is changed
    -- with the head locked, because hosts of the last release change it so.
    PERFORM FROM graph_progress WHERE chain = of_chain FOR UPDATE;
    erasure := (audit_lock(of_chain)).seq + 1;
    PERFORM require_key(of_account, by_key, at_time);
    sightings := 0;
    links := 0;
    IF of_node IS NOT NULL THEN
        SELECT * INTO sightings, links FROM graph_forget_node(of_account, of_node);
    END IF;
    recorded := n > 0 OR sightings + links > 0;
    IF NOT recorded THEN
        RETURN;
    END IF;
    INSERT INTO erased_records (chain, seq, leaf, erasure, ref)
        SELECT of_chain, g.seq, g.leaf, erasure, g.ref FROM unnest(seqs, leaves, tombstones) AS g (seq, leaf, ref);
    INSERT INTO erasures (chain, seq, subject, checks) VALUES (of_chain, erasure, subject_tombstone, checks);
    PERFORM audit_append(of_chain, entry);
END $$;

-- Records the disclosure of a subject's data, unless the subject was erased meanwhile.
CREATE FUNCTION audit_export(
    of_chain integer, of_account text, by_key text, at_time timestamptz, of_pseudonym bytea, entry jsonb
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM audit_lock(of_chain);
    PERFORM require_key(of_account, by_key, at_time);
    IF EXISTS (SELECT FROM audit_records WHERE chain = of_chain AND pseudonym = of_pseudonym) THEN
        PERFORM audit_append(of_chain, entry);
    END IF;
END $$;

-- Accounts ----------------------------------------------------------------------------------------------------------
--
-- Every change to an account's keys, plan and subscriptions holds the lock of the account's chain. It serialises the
-- changes, and once the end of a key is committed, no host records another check for it.
--
-- The argument serving has the statuses of a subscription in which keys work, plans has the properties of each plan.

-- Locks an account's chain and returns the account; null if there is none.
CREATE FUNCTION account_lock(of_account text) RETURNS accounts LANGUAGE plpgsql AS $$
DECLARE
    a accounts;
BEGIN
    SELECT * INTO a FROM accounts WHERE id = of_account;
    IF FOUND THEN
        PERFORM audit_lock(a.chain);
        SELECT * INTO a FROM accounts WHERE id = of_account;
    END IF;
    RETURN a;
END $$;

-- Whether the keys of a locked account may work: its plan is free, it never had a subscription, or one serves it.
CREATE FUNCTION keys_enabled(a accounts, plans jsonb, serving text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((plans -> a.plan ->> 'free')::boolean, false)
        OR NOT EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id)
        OR EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id AND status = ANY (serving));
END $$;

-- The columns of api_keys that a host chooses.
CREATE FUNCTION insert_key(key jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO api_keys (id, account_id, name, hash, hint, state, ended_at)
    SELECT id, account_id, name, hash, hint, state, ended_at FROM jsonb_populate_record(NULL::api_keys, key);
END $$;

-- Adds a key to an account, or replaces one that expires after overlap_ends. Returns why not, or an empty text.
CREATE FUNCTION add_key(
    key jsonb, replaces text, overlap_ends timestamptz, max_keys integer, at_time timestamptz, plans jsonb,
    serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(key ->> 'account_id');
    replaced_name text;
BEGIN
    IF replaces <> '' THEN
        SELECT name INTO replaced_name FROM api_keys WHERE id = replaces AND account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time);
        IF NOT FOUND THEN
            RETURN 'no such key';
        END IF;
        key := key || jsonb_build_object('name', replaced_name);
    ELSIF NOT keys_enabled(a, plans, serving) THEN
        RETURN 'the subscription has ended';
    END IF;
    IF (SELECT count(*) FROM api_keys WHERE account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time)) >= max_keys THEN
        RETURN 'too many keys';
    END IF;
    PERFORM insert_key(key);
    IF replaces <> '' THEN
        -- A key that is replaced twice expires at the earlier time.
        UPDATE api_keys SET expires_at = least(expires_at, overlap_ends) WHERE id = replaces;
        PERFORM pg_notify('assay', 'keys');
    END IF;
    RETURN '';
END $$;

-- Ends a key. If an account is given, the key must belong to it and not be the last one that can sign in.
CREATE FUNCTION revoke_key(of_key text, of_account text) RETURNS text LANGUAGE plpgsql AS $$
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
    PERFORM pg_notify('assay', 'keys');
    RETURN '';
END $$;

-- Moves a locked account to a plan and re-enables the keys that ended with a subscription. A plan without webhooks
-- drops the account's endpoint; the host discards its events afterwards.
CREATE FUNCTION set_plan(a accounts, new_plan text, plans jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    terms jsonb := plans -> new_plan;
BEGIN
    IF terms IS NULL THEN
        RAISE EXCEPTION 'there is no plan "%"', new_plan USING ERRCODE = 'no_data_found';
    END IF;
    -- An operator may have raised the quota, so it changes only with the plan.
    UPDATE accounts SET plan = new_plan, quota = (terms ->> 'quota')::integer WHERE id = a.id AND plan <> new_plan;
    UPDATE api_keys SET state = 'valid', ended_at = NULL WHERE account_id = a.id AND state = 'cancelled';
    IF NOT (terms ->> 'webhooks')::boolean THEN
        DELETE FROM webhook_endpoints WHERE account_id = a.id;
    END IF;
    PERFORM pg_notify('assay', 'keys');
END $$;

-- Sets an account's plan, and whether its keys work, from its subscriptions. The subscription that serves the account
-- and changed last determines the plan. The endpoint is locked first, because its rotation can take long.
CREATE FUNCTION apply_subscriptions(of_account text, plans jsonb, serving text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    a accounts;
    new_plan text;
BEGIN
    PERFORM FROM webhook_endpoints WHERE account_id = of_account FOR UPDATE;
    a := account_lock(of_account);
    IF NOT keys_enabled(a, plans, serving) THEN
        UPDATE api_keys SET state = 'cancelled', ended_at = now() WHERE account_id = a.id AND state = 'valid';
        PERFORM pg_notify('assay', 'keys');
        RETURN;
    END IF;
    SELECT plan INTO new_plan FROM billing_subscriptions WHERE account_id = a.id AND status = ANY (serving)
        ORDER BY changed_at DESC, id LIMIT 1;
    IF FOUND THEN -- otherwise the account has a free plan
        PERFORM set_plan(a, new_plan, plans);
    END IF;
END $$;

CREATE FUNCTION insert_account(account jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts (id, plan, quota, salt, chain)
    SELECT id, plan, quota, salt, chain FROM jsonb_populate_record(NULL::accounts, account);
END $$;

-- Begins a checkout. One that is paid already comes with a new account, or moves an account that no subscription serves
-- to its plan. Returns why not, or an empty text.
CREATE FUNCTION begin_checkout(checkout jsonb, account jsonb, plans jsonb, serving text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    c billing_checkouts := jsonb_populate_record(NULL::billing_checkouts, checkout);
    a accounts;
BEGIN
    IF account IS NOT NULL THEN
        PERFORM insert_account(account);
    ELSIF c.state = 'paid' THEN
        PERFORM FROM webhook_endpoints WHERE account_id = c.account_id FOR UPDATE;
        a := account_lock(c.account_id);
        IF EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id AND status = ANY (serving)) THEN
            RETURN 'subscribed';
        END IF;
        PERFORM set_plan(a, c.plan, plans);
    END IF;
    INSERT INTO billing_checkouts SELECT c.*;
    RETURN '';
END $$;

-- Issues the key of a checkout that the host has read, in place of the given one, which must be unused. Returns why
-- not, 'ended' if the subscription has ended in the meantime (then the key can only sign in), or an empty text.
CREATE FUNCTION claim_key(
    checkout jsonb, checkout_before text, replaces text, key jsonb, at_time timestamptz, plans jsonb, serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c billing_checkouts := jsonb_populate_record(NULL::billing_checkouts, checkout);
    a accounts;
    ended boolean;
BEGIN
    PERFORM FROM billing_checkouts AS b WHERE id = c.id AND b::text = checkout_before FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkout has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    a := account_lock(c.account_id);
    IF replaces <> '' THEN
        UPDATE api_keys SET state = 'revoked', ended_at = now()
        WHERE id = replaces AND state = 'valid' AND expires_at IS NULL AND last_used_at IS NULL
            AND NOT EXISTS (SELECT FROM key_uses WHERE chain = a.chain AND key_id = replaces);
        IF NOT FOUND THEN
            RETURN 'in use';
        END IF;
        PERFORM pg_notify('assay', 'keys');
    END IF;
    ended := NOT keys_enabled(a, plans, serving);
    PERFORM insert_key(key || CASE WHEN ended THEN jsonb_build_object('state', 'cancelled', 'ended_at', at_time)
        ELSE jsonb_build_object('state', 'valid') END);
    UPDATE billing_checkouts SET state = c.state, key_id = c.key_id, reissues = c.reissues, claimed_at = c.claimed_at
        WHERE id = c.id;
    RETURN CASE WHEN ended THEN 'ended' ELSE '' END;
END $$;

-- Applies a payment event once: stores the subscription that the host computed from the checkout and the subscription
-- that it has read, and what follows for the account. The account is that of a customer who has just paid, or null.
CREATE FUNCTION apply_billing(
    event text, of_checkout text, checkout_before text, subscription_before text, subscription jsonb, paid boolean,
    account jsonb, plans jsonb, serving text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    sub billing_subscriptions := jsonb_populate_record(NULL::billing_subscriptions, subscription);
    c billing_checkouts;
    s billing_subscriptions;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    SELECT * INTO c FROM billing_checkouts WHERE id = of_checkout FOR UPDATE;
    IF subscription_before IS NULL THEN -- a placeholder, so that other events of it wait
        INSERT INTO billing_subscriptions (id, provider) VALUES (sub.id, sub.provider) ON CONFLICT (id) DO NOTHING;
        IF FOUND THEN
            subscription_before := (SELECT b::text FROM billing_subscriptions AS b WHERE id = sub.id);
        END IF;
    END IF;
    SELECT * INTO s FROM billing_subscriptions WHERE id = sub.id FOR UPDATE;
    INSERT INTO billing_events (id) VALUES (event) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN; -- applied before
    END IF;
    IF (c.id IS NOT NULL AND c::text IS DISTINCT FROM checkout_before)
            OR (c.id IS NULL AND checkout_before IS NOT NULL) OR s::text IS DISTINCT FROM subscription_before THEN
        RAISE EXCEPTION 'the subscription has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    IF account IS NOT NULL THEN
        PERFORM insert_account(account);
    END IF;
    IF paid THEN
        UPDATE billing_checkouts SET state = 'paid', account_id = sub.account_id WHERE id = of_checkout;
    END IF;
    UPDATE billing_subscriptions
    SET account_id = sub.account_id, customer = sub.customer, plan = sub.plan, status = sub.status,
        ends_at = sub.ends_at, changed_at = sub.changed_at
    WHERE id = sub.id;
    IF sub.account_id IS NOT NULL THEN
        PERFORM apply_subscriptions(sub.account_id, plans, serving);
    END IF;
END $$;

-- Lineups -----------------------------------------------------------------------------------------------------------

-- Puts a revision in force and appends an entry to each chain. The document is null if the revision is stored already;
-- otherwise it must be the next one. A chain whose head was altered is left out: it does not verify anyway.
CREATE FUNCTION activate_lineup(
    new_revision bigint, new_document jsonb, new_digest bytea, new_origin text, new_note text,
    entries jsonb -- by chain
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one integer;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE; -- serialises changes of the lineup
    IF new_document IS NOT NULL THEN
        IF new_revision <> (SELECT coalesce(max(revision), 0) + 1 FROM lineup_revisions) THEN
            RAISE EXCEPTION 'lineup revision % is taken', new_revision USING ERRCODE = 'serialization_failure';
        END IF;
        INSERT INTO lineup_revisions (revision, document, digest, origin)
            VALUES (new_revision, new_document, new_digest, new_origin);
    END IF;
    INSERT INTO lineup_activations (id, revision, note)
        SELECT coalesce(max(id), 0) + 1, new_revision, new_note FROM lineup_activations;
    FOREACH one IN ARRAY audit_lock_all('3s') LOOP
        CONTINUE WHEN (SELECT octet_length(hash) FROM audit_heads WHERE chain = one ORDER BY seq DESC LIMIT 1) <> 32;
        IF entries -> one::text IS NULL THEN
            RAISE EXCEPTION 'audit chain % is new', one USING ERRCODE = 'serialization_failure';
        END IF;
        PERFORM audit_append(one, entries -> one::text);
    END LOOP;
    PERFORM pg_notify('assay', 'lineup');
END $$;

-- Retention ---------------------------------------------------------------------------------------------------------

-- Creates the partition for records from one time to another and moves their records to it from the default partition,
-- unless it exists, or so many records would have to move that checks waited for long: then they stay where they are.
--
-- Holding the heads rules out concurrent writers of records: an uncommitted row would block attaching the partition.
-- Checks wait for the heads, so the function gives up soon if others read the default partition.
CREATE FUNCTION create_partition(partition text, from_time timestamptz, to_time timestamptz, max_moved integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '250ms', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('assay create_partition', 0)); -- one host at a time
    IF to_regclass(partition) IS NOT NULL OR (SELECT count(*) FROM (SELECT 1 FROM audit_records_other
            WHERE recorded_at >= from_time AND recorded_at < to_time LIMIT max_moved + 1) AS r) > max_moved THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE audit_records INCLUDING DEFAULTS)', partition);
    PERFORM audit_lock_all('250ms');
    PERFORM set_config('lock_timeout', '50ms', true);
    LOCK TABLE audit_records_other IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('WITH moved AS (DELETE FROM audit_records_other WHERE recorded_at >= $1 AND recorded_at < $2
        RETURNING *) INSERT INTO %I SELECT * FROM moved', partition) USING from_time, to_time;
    EXECUTE format('ALTER TABLE audit_records ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, from_time,
        to_time);
END $$;

-- Detaches a month's partition and moves the records after each chain's cut to the default partition. Returns false if
-- it kept the partition, because too many records would have to move. The host drops the table afterwards, which takes
-- longer and needs no lock that checks wait for.
CREATE FUNCTION detach_partition(partition text, cuts jsonb, max_moved integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    one integer;
    n bigint := 0;
    later bigint;
    all_chains integer[] := audit_lock_all('250ms');
BEGIN
    PERFORM set_config('lock_timeout', '50ms', true);
    IF NOT EXISTS (SELECT FROM pg_inherits
            WHERE inhrelid = to_regclass(partition) AND inhparent = 'audit_records'::regclass) THEN
        RETURN true; -- another host has done it
    END IF;
    FOREACH one IN ARRAY all_chains LOOP
        EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM %I WHERE chain = $1 AND seq > $2 LIMIT $3 + 1) AS r',
            partition) INTO later USING one, coalesce((cuts ->> one::text)::bigint, 0), max_moved;
        n := n + later;
    END LOOP;
    IF n > max_moved THEN
        RETURN false;
    END IF;
    EXECUTE format('ALTER TABLE audit_records DETACH PARTITION %I', partition);
    FOREACH one IN ARRAY all_chains LOOP
        EXECUTE format('INSERT INTO audit_records SELECT * FROM %I WHERE chain = $1 AND seq > $2', partition)
            USING one, coalesce((cuts ->> one::text)::bigint, 0);
    END LOOP;
    RETURN true;
END $$;

-- Stores an anchor and appends the entry of the pruning that it permits, unless the chain was already cut there or
-- later. Returns false if the record at the anchor does not have its hash.
CREATE FUNCTION keep_anchor(of_chain integer, at_seq bigint, at_hash bytea, signed_note text, entry jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM audit_lock(of_chain);
    IF EXISTS (SELECT FROM audit_anchors WHERE chain = of_chain AND seq >= at_seq) THEN
        RETURN true;
    END IF;
    IF NOT EXISTS (SELECT FROM audit_records WHERE chain = of_chain AND seq = at_seq AND hash = at_hash) THEN
        RETURN false;
    END IF;
    INSERT INTO audit_anchors (chain, seq, note) VALUES (of_chain, at_seq, signed_note);
    PERFORM audit_append(of_chain, entry);
    RETURN true;
END $$;
