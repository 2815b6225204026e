-- Functions for all writes that touch an audit chain, or that checks must not miss. Each call is one statement that
-- commits by itself, so a host that stops at any moment holds no lock that a check waits for. Hosts read and compute
-- first. A function then takes the locks, verifies what the host has read, and writes. If something has changed
-- meanwhile, it fails with serialization_failure, and the host starts again.
--
-- Locks that may take long are taken before the heads, and heads are locked in ascending order.
--
-- Most parameters and variables begin with of_, by_, at_ or new_, and arrays are plurals, so that none is taken for a
-- column. Where a column has the same name anyway, it is qualified.
--
-- A host applies this file when it differs from what the database has (host/store/functions.go).

-- Chains ----------------------------------------------------------------------------------------------------------

-- The settings that audit_lock makes for the transaction.
CREATE OR REPLACE FUNCTION audit_settings(patience text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience, true);
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
END $$;

-- audit_lock locks a chain's head until the end of the transaction and returns it. It also makes the commit durable,
-- and an interrupted wait for a standby visible, whatever the session's settings are. Without sequential scans the
-- newest version of the head is found first through the key, even while an open snapshot keeps thousands of old ones.
CREATE OR REPLACE FUNCTION audit_lock(of_chain integer, patience text DEFAULT '3s') RETURNS audit_heads
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    head audit_heads;
BEGIN
    PERFORM audit_settings(patience);
    SELECT * INTO head FROM audit_heads WHERE chain = of_chain ORDER BY seq DESC LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'audit chain % has no head', of_chain USING ERRCODE = 'data_corrupted';
    ELSIF octet_length(head.hash) <> 32 THEN
        RAISE EXCEPTION 'the head of audit chain % was altered: its hash is not 32 bytes long', of_chain
            USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN head;
END $$;

-- Locks the heads of all chains of checks in ascending order, and returns the numbers of the chains. A chain with a
-- damaged head cannot grow, so it needs no lock. A cluster delegates this call of audit_lock to the chain's machine, so
-- the settings hold there too; Citus does not delegate an expression such as PERFORM audit_lock(...).
CREATE OR REPLACE FUNCTION audit_lock_all(patience text) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    all_chains integer[] := ARRAY(SELECT DISTINCT chain FROM audit_heads WHERE chain < 1000000 ORDER BY chain);
    one integer;
BEGIN
    PERFORM audit_settings(patience);
    FOREACH one IN ARRAY all_chains LOOP
        BEGIN
            PERFORM * FROM audit_lock(one, patience);
        EXCEPTION WHEN data_corrupted THEN -- verification of the chain reports it
        END;
    END LOOP;
    RETURN all_chains;
END $$;

-- Appends one record to a chain and returns its number. The entry holds the columns of audit_records that do not depend
-- on the record's place.
CREATE OR REPLACE FUNCTION audit_append(of_chain integer, entry jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    head audit_heads := audit_lock(of_chain);
    r audit_records := jsonb_populate_record(NULL::audit_records, entry);
BEGIN
    r.chain := of_chain;
    r.seq := head.seq + 1;
    r.hash := sha256('\x01' || head.hash || int4send(r.chain) || int8send(r.seq) || r.leaf);
    IF of_chain >= 1000000 THEN
        INSERT INTO state_records SELECT r.*;
    ELSE
        INSERT INTO audit_records SELECT r.*;
    END IF;
    UPDATE audit_heads SET seq = r.seq, hash = r.hash WHERE chain = of_chain AND seq = head.seq;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the head of audit chain % moved under its lock', of_chain;
    END IF;
    RETURN r.seq;
END $$;

-- Locks all chains of checks and appends each one's entry, except if its head was altered: it cannot verify anyway.
CREATE OR REPLACE FUNCTION audit_append_all(
    entries jsonb -- by chain
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one integer;
BEGIN
    FOREACH one IN ARRAY audit_lock_all('3s') LOOP
        CONTINUE WHEN (SELECT octet_length(hash) FROM audit_heads WHERE chain = one ORDER BY seq DESC LIMIT 1) <> 32;
        IF entries -> one::text IS NULL THEN
            RAISE EXCEPTION 'audit chain % is new', one USING ERRCODE = 'serialization_failure';
        END IF;
        PERFORM audit_append(one, entries -> one::text);
    END LOOP;
END $$;

-- Whether a chain contains a record, or has pruned it.
CREATE OR REPLACE FUNCTION audit_contains(of_chain integer, of_seq bigint, at_time timestamptz, of_hash bytea)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM audit_records AS r
            WHERE r.chain = of_chain AND r.seq = of_seq AND r.recorded_at = at_time AND r.hash = of_hash)
        OR EXISTS (SELECT FROM audit_anchors AS a WHERE a.chain = of_chain AND a.seq >= of_seq);
END $$;

-- Extends a tree from one size to another. Returns false if it does not have the first size, because another host has
-- extended it. Fails with data_corrupted, and changes nothing, if a stored tile is not the beginning of the new one.
CREATE OR REPLACE FUNCTION audit_grow(
    of_chain integer, from_size bigint, from_root bytea, to_size bigint, to_root bytea,
    levels integer[], places bigint[], tiles bytea[]
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
    INSERT INTO audit_tiles AS t (chain, level, place, hashes)
        SELECT of_chain, g.level, g.place, g.hashes FROM unnest(levels, places, tiles) AS g (level, place, hashes)
        ON CONFLICT (chain, level, place) DO UPDATE SET hashes = excluded.hashes
        WHERE substr(excluded.hashes, 1, octet_length(t.hashes)) = t.hashes;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(levels) THEN
        RAISE EXCEPTION 'a stored tile of audit chain % differs from the records', of_chain
            USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN true;
END $$;

-- Accepts losses of a chain: appends the record of the acceptance. Returns its number. Fails if a loss was accepted or
-- found meanwhile.
CREATE OR REPLACE FUNCTION audit_accept(of_chain integer, seqs bigint[], hashes bytea[], signed_note text, entry jsonb)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    changed integer;
BEGIN
    number := audit_append(of_chain, entry);
    INSERT INTO audit_acceptances (chain, seq, note) VALUES (of_chain, number, signed_note);
    UPDATE audit_trees AS t SET after = number WHERE t.chain = of_chain;
    UPDATE audit_losses AS l SET accepted = number
        FROM unnest(seqs, hashes) AS g (seq, hash)
        WHERE l.chain = of_chain AND l.seq = g.seq AND l.hash = g.hash AND l.accepted IS NULL;
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed <> cardinality(seqs)
            OR EXISTS (SELECT FROM audit_losses AS l WHERE l.chain = of_chain AND l.accepted IS NULL) THEN
        RAISE EXCEPTION 'the losses have changed' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN number;
END $$;

-- Creates the partition for records from one time to another and moves their records to it from the default partition,
-- unless it exists, or checks would wait for long because so many records must move: then they stay where they are.
--
-- Holding the heads rules out concurrent writers of records: an uncommitted row would block attaching the partition.
-- Checks wait for the heads, so the function gives up soon if others read the default partition.
CREATE OR REPLACE FUNCTION create_partition(partition text, from_time timestamptz, to_time timestamptz, max_moved integer)
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
    -- Heads are free a moment before the new partition is known. A record that is routed then would be refused.
    LOCK TABLE ONLY audit_records IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE audit_records_other IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('WITH moved AS (DELETE FROM audit_records_other WHERE recorded_at >= $1 AND recorded_at < $2
        RETURNING *) INSERT INTO %I SELECT * FROM moved', partition) USING from_time, to_time;
    EXECUTE format('ALTER TABLE audit_records ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, from_time,
        to_time);
END $$;

-- Detaches a month's partition and moves the records after each chain's cut to the default partition. Returns false if
-- it kept the partition, because too many records would have to move. The host drops the table afterwards, which takes
-- longer and needs no lock that checks wait for.
--
-- The records are counted before the heads are locked. Then only the chains that have any are searched again.
CREATE OR REPLACE FUNCTION detach_partition(partition text, cuts jsonb, max_moved integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    after_cut CONSTANT text := 'chain = $1 AND seq > coalesce(($2 ->> $1::text)::bigint, 0)';
    chains CONSTANT text := format('SELECT ARRAY(SELECT DISTINCT h.chain FROM audit_heads AS h WHERE EXISTS (SELECT 1
        FROM %I AS r WHERE r.chain = h.chain AND r.seq > coalesce(($1 ->> h.chain::text)::bigint, 0)))', partition);
    later integer[];
    one integer;
    n bigint := 0;
    found_rows bigint;
BEGIN
    PERFORM set_config('lock_timeout', '50ms', true);
    IF NOT EXISTS (SELECT FROM pg_inherits
            WHERE inhrelid = to_regclass(partition) AND inhparent = 'audit_records'::regclass) THEN
        RETURN true; -- another host has done it
    END IF;
    EXECUTE chains INTO later USING cuts;
    FOREACH one IN ARRAY later LOOP
        EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM %I WHERE %s LIMIT $3 + 1) AS r', partition, after_cut)
            INTO found_rows USING one, cuts, max_moved;
        n := n + found_rows;
    END LOOP;
    IF n > max_moved THEN
        RETURN false;
    END IF;
    PERFORM audit_lock_all('250ms');
    PERFORM set_config('lock_timeout', '50ms', true);
    IF NOT EXISTS (SELECT FROM pg_inherits
            WHERE inhrelid = to_regclass(partition) AND inhparent = 'audit_records'::regclass) THEN
        RETURN true;
    END IF;
    EXECUTE chains INTO later USING cuts;
    EXECUTE format('ALTER TABLE audit_records DETACH PARTITION %I', partition);
    FOREACH one IN ARRAY later LOOP
        EXECUTE format('INSERT INTO audit_records SELECT * FROM %I WHERE %s', partition, after_cut) USING one, cuts;
    END LOOP;
    RETURN true;
END $$;

-- Stores an anchor and appends the entry of the pruning that it permits, unless the chain was already cut there or
-- later. Returns false if the record at the anchor does not have its hash.
CREATE OR REPLACE FUNCTION keep_anchor(of_chain integer, at_seq bigint, at_hash bytea, signed_note text, entry jsonb)
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

-- Checks ----------------------------------------------------------------------------------------------------------

-- ledger_append records a batch of calls, in order, each with all of its records or not at all. It is one statement,
-- and a transaction of its own: a host that stops at any instant holds no lock, because the statement has either
-- arrived or not. It returns the calls that it refused, numbered from 0, and why:
--
--   unauthorized  the key is not valid
--   suspended     the operator suspended the account
--   quota         the month's quota does not cover the call
--   event         the account has a webhook endpoint, but a record of the call has no payload for it: ask again with it
--   moved         the account belongs to another chain
--   revision      the lineup of a record stopped being in force more than 2 s ago
--   answered      a call with the same idempotency key was recorded, less than 24 hours ago or earlier in the batch
--
-- An earlier call of the batch may itself be refused, so the host looks for the answer and tries again if there is
-- none. One more row, "head", has the last record of the batch.
--
-- Keys, quotas and lineups are judged by the database's clock, so that all hosts agree. A host that was paused while
-- lineups changed cannot answer under an old one. A batch fails with SQLSTATE AS001 if ledger_settle has declared it
-- lost, and with AS002 if the chain does not contain the last record that the host answered for.
--
-- It finds the newest versions of the head and of the accounts' usage through their keys, however many old ones an open
-- snapshot keeps. It reuses its plans, except on a cluster, where Citus needs the arguments to plan.
CREATE OR REPLACE FUNCTION ledger_append(
    of_chain   integer,
    of_batch   bytea, -- random
    patience   integer, -- milliseconds to wait for the head
    -- The accounts of the batch and the number of records of each.
    accounts   text[],
    needed     integer[],
    -- The callers: a key ('' on the no-key endpoint) and the place of its account in accounts.
    keys       text[],
    owners     integer[],
    -- The calls: the place of the caller in keys, the number of records, and whether an event has no payload.
    callers    integer[],
    sizes      integer[],
    lacking    boolean[],
    -- The records: the place of the caller, and the columns.
    caller_of  integer[],
    times      timestamptz[],
    refs       text[],
    types      text[],
    pseudonyms bytea[],
    nonces     bytea[],
    scores     integer[],
    verdicts   text[],
    revisions  bigint[],
    leaves     bytea[],
    nodes      bytea[],
    items      bytea[], -- for graph_contributions
    -- The events with a payload: the place of the record, and the columns.
    event_of   integer[],
    events     text[],
    payloads   bytea[],
    -- For each record, the MAC of the override that decided; '' if none did.
    digests    bytea[],
    -- The calls with an idempotency key: the place of the call, that of its first record, and the columns.
    once_of    integer[],
    firsts     integer[],
    once_keys  bytea[],
    requests   bytea[],
    answers    bytea[],
    -- The last record that the host answered for, which must be there; its number is 0 if there is none.
    known      bigint,
    known_at   timestamptz,
    known_hash bytea
) RETURNS TABLE (call integer, outcome text, quota integer, remaining integer, resets_at timestamptz, head_seq bigint,
    head_hash bytea)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    head audit_heads := audit_lock(of_chain, patience || 'ms');
    month date := date_trunc('month', now() AT TIME ZONE 'UTC');
    new_seq bigint := head.seq;
    new_hash bytea := head.hash;
    chain_bytes bytea := int4send(of_chain);
    -- Assigning element n of an empty array makes an array that begins at n, and unnest would pair it with the wrong
    -- rows. So these have all their elements from the beginning.
    seqs bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(leaves)]);
    hashes bytea[] := array_fill(NULL::bytea, ARRAY[cardinality(leaves)]);
    valid boolean[];
    due text[]; -- keys whose last use is to be stored
    quotas integer[]; -- null: unlimited
    used integer[];
    larger integer[]; -- quotas of larger plans that were paid for in this month
    chains integer[];
    has_endpoint boolean[];
    disabled boolean[];
    suspended boolean[];
    rows tid[]; -- of the accounts in quota_usage; null: none in this month
    counted bigint;
    fits boolean;
    stopped bigint[] := '{}'; -- revisions that may not be recorded
    answered integer[]; -- calls whose key has an answer, or is that of an earlier call in the batch
    first_record integer := 1;
    owner integer;
    one bytea;
    place integer := 0;
    of_account text;
    last_event bigint;
    names text[]; -- accounts that get events, and the number of the last event of each
    lasts bigint[];
    is_there boolean := true; -- whether the last record that the host answered for is there
BEGIN
    IF EXISTS (SELECT FROM ledger_settlements AS s WHERE s.chain = of_chain AND s.batch = of_batch) THEN
        RAISE 'the batch was settled before it arrived' USING ERRCODE = 'AS001';
    END IF;

    IF known = head.seq THEN
        is_there := known = 0 OR known_hash = head.hash;
    ELSIF known > 0 THEN
        is_there := known < head.seq AND audit_contains(of_chain, known, known_at, known_hash);
    END IF;
    IF NOT is_there THEN
        RAISE 'record % of audit chain % is not the one that was answered', known, of_chain USING ERRCODE = 'AS002';
    END IF;

    -- A statement reads either tables of the chain or tables that every node of a cluster has a copy of: Citus requires
    -- that of functions that it passes on to the chain's node.
    SELECT array_agg(CASE c.key WHEN '' THEN accounts[c.owner] = 'acct_public' ELSE
               coalesce(k.state = 'valid' AND (k.expires_at IS NULL OR k.expires_at > now()), false) END ORDER BY c.n),
           array_agg(c.key) FILTER (WHERE k.id IS NOT NULL)
    INTO valid, due
    FROM unnest(keys, owners) WITH ORDINALITY AS c (key, owner, n)
    LEFT JOIN api_keys AS k ON k.id = c.key AND k.account_id = accounts[c.owner];
    due := ARRAY(SELECT unnest(due) EXCEPT SELECT u.key_id FROM key_uses AS u
        WHERE u.chain = of_chain AND u.key_id = ANY (due) AND u.used_at > now() - interval '1 minute');

    -- Both limits of the period are given, because only then does the index give the newest version of a row first.
    SELECT array_agg(u.ctid ORDER BY c.n), array_agg(coalesce(u.used, 0) ORDER BY c.n), array_agg(u.quota ORDER BY c.n)
    INTO rows, used, larger
    FROM unnest(accounts) WITH ORDINALITY AS c (account, n)
    LEFT JOIN LATERAL (
        SELECT q.ctid, q.used, q.quota FROM quota_usage AS q
        WHERE q.chain = of_chain AND q.account_id = c.account AND q.period >= month AND q.period <= month
        ORDER BY q.period DESC LIMIT 1
    ) AS u ON true;
    SELECT array_agg(CASE WHEN a.plan <> 'public' THEN greatest(a.quota, c.larger) END ORDER BY c.n),
           array_agg(a.chain ORDER BY c.n),
           array_agg(e.account_id IS NOT NULL ORDER BY c.n),
           array_agg(e.disabled_at IS NOT NULL ORDER BY c.n),
           array_agg(a.suspended_at IS NOT NULL ORDER BY c.n),
           bool_and(a.chain IS NOT DISTINCT FROM of_chain AND a.suspended_at IS NULL
               AND (a.plan = 'public' OR c.used + c.needed <= greatest(a.quota, c.larger)))
    INTO quotas, chains, has_endpoint, disabled, suspended, fits
    FROM unnest(accounts, needed, used, larger) WITH ORDINALITY AS c (account, needed, used, larger, n)
    LEFT JOIN accounts AS a ON a.id = c.account
    LEFT JOIN webhook_endpoints AS e ON e.account_id = c.account;

    -- Revisions are compared after waiting for the head, so an activation that was committed meanwhile counts.
    stopped := ARRAY(SELECT r.revision FROM (SELECT DISTINCT unnest(revisions)) AS r (revision)
        LEFT JOIN revisions_in_force AS f ON f.revision = r.revision
        WHERE f.revision IS NULL OR f.until <= clock_timestamp() - interval '2 seconds');

    -- The first call with a key is recorded under the head's lock, so all others find its answer.
    IF cardinality(once_of) > 0 THEN
        SELECT array_agg(o.call) INTO answered
        FROM (
            SELECT c.call, c.key, row_number() OVER (PARTITION BY c.key ORDER BY c.call) > 1 AS again
            FROM unnest(once_of, once_keys) AS c (call, key)
        ) AS o
        LEFT JOIN LATERAL (
            SELECT a.kept_at FROM answers AS a
            WHERE a.chain = of_chain AND a.account_id = accounts[owners[callers[o.call]]] AND a.key_hash = o.key
                AND a.kept_at > now() - interval '24 hours'
            LIMIT 1
        ) AS kept ON true
        WHERE o.again OR kept.kept_at IS NOT NULL;
    END IF;

    -- Usually every call is accepted. Otherwise the records of refused calls lose their leaf.
    IF NOT fits OR false = ANY (valid) OR cardinality(stopped) > 0 OR answered IS NOT NULL
            OR (true = ANY (lacking) AND true = ANY (has_endpoint)) THEN
        needed := array_fill(0, ARRAY[cardinality(accounts)]);
        FOR nth IN 1 .. cardinality(callers) LOOP
            owner := owners[callers[nth]];
            outcome := CASE
                WHEN NOT valid[callers[nth]] OR chains[owner] IS NULL THEN 'unauthorized'
                WHEN suspended[owner] THEN 'suspended'
                WHEN chains[owner] <> of_chain THEN 'moved'
                WHEN nth = ANY (answered) THEN 'answered'
                WHEN revisions[first_record:first_record + sizes[nth] - 1] && stopped THEN 'revision'
                WHEN used[owner] + needed[owner] + sizes[nth] > quotas[owner] THEN 'quota'
                WHEN lacking[nth] AND has_endpoint[owner] THEN 'event'
            END;
            IF outcome IS NULL THEN
                needed[owner] := needed[owner] + sizes[nth];
            ELSE
                call := nth - 1;
                quota := quotas[owner];
                remaining := greatest(0, quota - used[owner] - needed[owner]);
                resets_at := (month + interval '1 month') AT TIME ZONE 'UTC';
                RETURN NEXT;
                FOR i IN first_record .. first_record + sizes[nth] - 1 LOOP
                    leaves[i] := NULL;
                END LOOP;
            END IF;
            first_record := first_record + sizes[nth];
        END LOOP;
    END IF;

    -- The chain, as package audit defines it.
    FOREACH one IN ARRAY leaves LOOP
        place := place + 1;
        CONTINUE WHEN one IS NULL;
        new_seq := new_seq + 1;
        new_hash := sha256('\x01' || new_hash || chain_bytes || int8send(new_seq) || one);
        seqs[place] := new_seq;
        hashes[place] := new_hash;
    END LOOP;
    IF new_seq = head.seq THEN
        RETURN;
    END IF;

    INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, account_id, key_id, type, pseudonym, nonce,
        score, verdict, revision, digest, leaf, hash, sealed_node)
    SELECT of_chain, r.seq, r.recorded_at, 'check', r.ref, accounts[owners[r.caller]], keys[r.caller], r.type,
        r.pseudonym, r.nonce, r.score, r.verdict, r.revision, nullif(r.digest, ''), r.leaf, r.hash,
        r.node
    FROM unnest(seqs, times, refs, caller_of, types, pseudonyms, nonces, scores, verdicts,
        revisions, leaves, hashes, nodes, digests)
        AS r (seq, recorded_at, ref, caller, type, pseudonym, nonce, score, verdict, revision, leaf, hash, node,
            digest)
    WHERE r.leaf IS NOT NULL;

    INSERT INTO graph_contributions (chain, seq, items, added)
    SELECT of_chain, new_seq, count(*), string_agg(int4send(length(r.item)) || r.item, ''::bytea ORDER BY r.n)
    FROM unnest(items, leaves) WITH ORDINALITY AS r (item, leaf, n)
    WHERE r.leaf IS NOT NULL;

    -- Nobody else counts checks of the chain's accounts meanwhile: the head is locked.
    UPDATE quota_usage AS q SET used = q.used + c.needed
    FROM unnest(rows, needed, quotas) AS c (place, needed, quota)
    WHERE q.chain = of_chain AND q.ctid = c.place AND c.needed > 0 AND c.quota IS NOT NULL;
    GET DIAGNOSTICS counted = ROW_COUNT;
    IF counted <> (SELECT count(*) FROM unnest(rows, needed, quotas) AS c (place, needed, quota)
            WHERE c.place IS NOT NULL AND c.needed > 0 AND c.quota IS NOT NULL) THEN
        RAISE 'the usage of accounts of audit chain % moved', of_chain USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO quota_usage AS q (chain, account_id, period, used)
    SELECT of_chain, c.account, month, c.needed
    FROM unnest(accounts, rows, needed, quotas) AS c (account, place, needed, quota)
    WHERE c.place IS NULL AND c.needed > 0 AND c.quota IS NOT NULL
    ON CONFLICT (chain, account_id, period) DO UPDATE SET used = q.used + EXCLUDED.used;

    IF cardinality(due) > 0 THEN
        INSERT INTO key_uses (chain, key_id, used_at)
        SELECT DISTINCT of_chain, keys[r.caller], now()
        FROM unnest(caller_of, leaves) AS r (caller, leaf)
        WHERE r.leaf IS NOT NULL AND keys[r.caller] = ANY (due)
        ON CONFLICT (chain, key_id) DO UPDATE SET used_at = EXCLUDED.used_at;
    END IF;

    -- A new answer replaces one that is too old to be given again.
    IF cardinality(once_of) > 0 THEN
        INSERT INTO answers (chain, account_id, key_hash, request, sealed, subjects, kept_at)
        SELECT of_chain, accounts[owners[callers[o.call]]], o.key, o.request, o.sealed,
            pseudonyms[o.first:o.first + sizes[o.call] - 1], now()
        FROM unnest(once_of, firsts, once_keys, requests, answers) AS o (call, first, key, request, sealed)
        WHERE leaves[o.first] IS NOT NULL
        ON CONFLICT (chain, account_id, key_hash) DO UPDATE
        SET request = EXCLUDED.request, sealed = EXCLUDED.sealed, subjects = EXCLUDED.subjects, kept_at = EXCLUDED.kept_at;
    END IF;

    -- The events of an account are numbered in the order of the chain. The head's lock makes the numbers visible in
    -- order, so a reader that has seen number n will never find a lower one later. Events of a disabled endpoint fail
    -- without an attempt. They are kept as long as other failed events and can be resent.
    --
    -- These are two statements, because Citus would send the result of a common table expression to all machines, and
    -- commit in two phases.
    IF cardinality(event_of) > 0 THEN
        FOR of_account, last_event IN
            INSERT INTO webhook_sequences AS s (chain, account_id, last)
            SELECT of_chain, accounts[owners[caller_of[e.record]]], count(*)
            FROM unnest(event_of) AS e (record)
            WHERE leaves[e.record] IS NOT NULL AND has_endpoint[owners[caller_of[e.record]]]
            GROUP BY 2
            ON CONFLICT (chain, account_id) DO UPDATE SET last = s.last + EXCLUDED.last
            RETURNING s.account_id, s.last
        LOOP
            names := names || of_account;
            lasts := lasts || last_event;
        END LOOP;
        INSERT INTO webhook_events (chain, ref, account_id, event, type, score, occurred_at, sealed_payload, sequence,
            state, next_attempt_at, settled_at, created_at)
        SELECT of_chain, refs[n.record], n.account_id, n.event, types[n.record], scores[n.record],
            times[n.record], n.payload,
            s.last + 1 - row_number() OVER (PARTITION BY n.account_id ORDER BY n.record DESC),
            CASE WHEN n.disabled THEN 'failed' ELSE 'pending' END,
            CASE WHEN NOT n.disabled THEN now() END,
            CASE WHEN n.disabled THEN now() END,
            now()
        FROM (
            SELECT e.record, e.event, e.payload, accounts[owners[caller_of[e.record]]] AS account_id,
                disabled[owners[caller_of[e.record]]] AS disabled
            FROM unnest(event_of, events, payloads) AS e (record, event, payload)
            WHERE leaves[e.record] IS NOT NULL AND has_endpoint[owners[caller_of[e.record]]]
        ) AS n
        JOIN unnest(names, lasts) AS s (account_id, last) USING (account_id);
    END IF;

    UPDATE audit_heads AS h SET seq = new_seq, hash = new_hash WHERE h.chain = of_chain AND h.seq = head.seq;
    IF NOT FOUND THEN
        RAISE 'the head of audit chain % moved under its lock', of_chain USING ERRCODE = 'data_corrupted';
    END IF;
    call := -1;
    outcome := 'head';
    head_seq := new_seq;
    head_hash := new_hash;
    RETURN NEXT;
END $$;

-- ledger_settle finds out which of a batch's calls are recorded, by the first record of each, and returns their places
-- from 0. A record that was erased meanwhile is found by the mark of its reference. A batch that is not recorded by
-- then never will be, and since the commit waits for the same standbys as the batch's, a recorded one is replicated.
CREATE OR REPLACE FUNCTION ledger_settle(
    of_chain integer, of_batch bytea, patience integer, refs text[], times timestamptz[], marks bytea[]
) RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN
    PERFORM audit_lock(of_chain, patience || 'ms');
    RETURN QUERY
        SELECT c.n::integer - 1
        FROM unnest(refs, times, marks) WITH ORDINALITY AS c (ref, recorded_at, mark, n)
        WHERE EXISTS (SELECT FROM audit_records AS r
                WHERE r.chain = of_chain AND r.ref = c.ref AND r.recorded_at = c.recorded_at)
            OR EXISTS (SELECT FROM erased_records AS e WHERE e.chain = of_chain AND e.ref = c.mark);
    INSERT INTO ledger_settlements (chain, batch, recorded) VALUES (of_chain, of_batch, FOUND) ON CONFLICT DO NOTHING;
END $$;

-- The times after a given one. Citus accepts functions in an INSERT that may have no subquery.
CREATE OR REPLACE FUNCTION times_after(times timestamptz[], earliest timestamptz) RETURNS timestamptz[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT t FROM unnest(times) AS t WHERE t > earliest)
$$;

-- States ----------------------------------------------------------------------------------------------------------
--
-- Each change of an account, a key, a list, a lineup, a plugin or an override appends a record to a chain of states in
-- the same transaction. The record has the SHA-256 of the row. Verification compares the rows with the last record of
-- each, and computes the digests by itself. Only states.sql defines what they cover.

-- A field of a record's encoding: its length, then its bytes.
CREATE OR REPLACE FUNCTION audit_field(value bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int4send(octet_length(value)) || value;
$$;

-- Appends a record of a state, or of its removal if the digest is null, to the chain of states of the account or of the
-- installation. It appends nothing if the chain's head was altered or is gone: such a chain does not verify, but the
-- rows must be changeable all the same.
CREATE OR REPLACE FUNCTION append_state(
    of_type text, of_account text, of_key text, state text, amount integer, number bigint, digest bytea
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    of_chain integer := coalesce((SELECT 1000001 + a.chain FROM accounts AS a WHERE a.id = of_account), 1000000);
    moment timestamptz := date_trunc('milliseconds', clock_timestamp());
    at text := to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
    nonce bytea := uuid_send(gen_random_uuid());
    ref text := 'state_' || replace(gen_random_uuid()::text, '-', '');
    content bytea := '\x01';
    part text;
BEGIN
    IF octet_length((SELECT hash FROM audit_heads WHERE chain = of_chain ORDER BY seq DESC LIMIT 1))
            IS DISTINCT FROM 32 THEN
        RETURN;
    END IF;
    FOREACH part IN ARRAY ARRAY['state', at, ref, of_account, of_key, of_type, ''] LOOP -- the last is the pseudonym
        content := content || audit_field(convert_to(part, 'UTF8'));
    END LOOP;
    content := content || int8send(amount) || audit_field(convert_to(state, 'UTF8')) || int8send(number)
        || audit_field(coalesce(digest, ''));
    PERFORM audit_append(of_chain, jsonb_build_object('recorded_at', moment, 'kind', 'state', 'ref', ref,
        'account_id', of_account, 'key_id', of_key, 'type', of_type, 'nonce', '\x' || encode(nonce, 'hex'),
        'score', amount, 'verdict', state, 'revision', number, 'digest', '\x' || encode(digest, 'hex'),
        'leaf', '\x' || encode(sha256('\x00' || nonce || content), 'hex')));
END $$;

-- Records the state of a row after a change. The digest is computed before the chain's head is locked. The host writes
-- the cases from states.sql.
CREATE OR REPLACE FUNCTION record_state(of_type text, of_id text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    of_account text;
    of_key text := CASE WHEN of_type <> 'account' THEN of_id ELSE '' END;
    of_state text;
    of_amount integer;
    of_number bigint;
    of_digest bytea;
BEGIN
    CASE of_type
    -- states.sql
    END CASE;
    IF FOUND THEN
        PERFORM append_state(of_type, of_account, of_key, of_state, of_amount, of_number, of_digest);
    END IF;
END $$;

-- Accounts and keys -----------------------------------------------------------------------------------------------
--
-- Every change to an account's keys, plan and subscriptions holds the lock of the account's chain. It serialises the
-- changes, and once the end of a key is committed, no host records another check for it.
--
-- The argument serving has the statuses of a subscription in which keys work, plans has the properties of each plan.

-- Locks an account's chain and returns the account; null if there is none.
CREATE OR REPLACE FUNCTION account_lock(of_account text) RETURNS accounts LANGUAGE plpgsql AS $$
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

-- Fails with invalid_authorization_specification unless the key may be used at the given time. The operator's commands
-- have no key.
CREATE OR REPLACE FUNCTION require_key(of_account text, of_key text, at_time timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF of_key <> 'operator' AND (NOT EXISTS (SELECT FROM api_keys
                WHERE id = of_key AND account_id = of_account AND state = 'valid'
                AND (expires_at IS NULL OR expires_at > at_time))
            OR EXISTS (SELECT FROM accounts WHERE id = of_account AND suspended_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'the key is not valid' USING ERRCODE = 'invalid_authorization_specification';
    END IF;
END $$;

-- Whether the keys of a locked account may work: its plan is free, it never had a subscription, or one serves it.
CREATE OR REPLACE FUNCTION keys_enabled(a accounts, plans jsonb, serving text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((plans -> a.plan ->> 'free')::boolean, false)
        OR NOT EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id)
        OR EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id AND status = ANY (serving));
END $$;

-- Adds a key. The host sets all columns except created_at.
CREATE OR REPLACE FUNCTION insert_key(key jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    k api_keys := jsonb_populate_record(NULL::api_keys, key);
BEGIN
    k.created_at := now();
    k.test := coalesce(k.test, false);
    INSERT INTO api_keys SELECT k.*;
END $$;

-- Adds a key to an account, or replaces one that expires after overlap_ends. The new key has the name and limits of the
-- replaced one. Returns the reason for a refusal, or an empty text.
CREATE OR REPLACE FUNCTION add_key(
    key jsonb, replaces text, overlap_ends timestamptz, max_keys integer, at_time timestamptz, plans jsonb,
    serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(key ->> 'account_id');
    kept jsonb;
BEGIN
    IF replaces <> '' THEN
        SELECT to_jsonb(k) INTO kept FROM (SELECT name, scopes, networks, lifetime, test FROM api_keys
            WHERE id = replaces AND account_id = a.id AND state = 'valid'
                AND (expires_at IS NULL OR expires_at > at_time)) AS k;
        IF NOT FOUND THEN
            RETURN 'no such key';
        END IF;
        key := key || kept;
    ELSIF NOT keys_enabled(a, plans, serving) THEN
        RETURN 'the subscription has ended';
    END IF;
    IF (SELECT count(*) FROM api_keys WHERE account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time)) >= max_keys THEN
        RETURN 'too many keys';
    END IF;
    PERFORM insert_key(key || jsonb_build_object('expires_at', at_time + (key ->> 'lifetime')::interval));
    PERFORM record_state('key', key ->> 'id');
    IF replaces <> '' THEN
        -- A key that is replaced twice expires at the earlier time.
        UPDATE api_keys SET expires_at = least(expires_at, overlap_ends) WHERE id = replaces;
        PERFORM record_state('key', replaces);
        PERFORM pg_notify('assay', 'keys');
    END IF;
    RETURN '';
END $$;

-- Ends a key. If an account is given, the key must belong to it and not be the last one that can sign in.
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
    PERFORM record_state('key', of_key);
    PERFORM pg_notify('assay', 'keys');
    RETURN '';
END $$;

-- Sets the monthly quota of an account until its plan changes. Returns whether the account exists.
CREATE OR REPLACE FUNCTION set_quota(of_account text, new_quota integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(of_account);
BEGIN
    IF a.id IS NULL THEN
        RETURN false;
    END IF;
    UPDATE accounts SET quota = new_quota WHERE id = a.id;
    UPDATE quota_usage SET quota = NULL WHERE chain = a.chain AND account_id = a.id; -- of an earlier, larger plan
    PERFORM record_state('account', a.id);
    PERFORM pg_notify('assay', 'keys');
    RETURN true;
END $$;

-- Suspends an account, or ends its suspension. Its keys stay as they are, but none works meanwhile. Returns whether the
-- account exists.
CREATE OR REPLACE FUNCTION set_standing(of_account text, suspended boolean, reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(of_account);
    since timestamptz := CASE WHEN suspended THEN coalesce(a.suspended_at, now()) END;
BEGIN
    IF a.id IS NULL THEN
        RETURN false;
    END IF;
    UPDATE accounts SET suspended_at = since, standing = reason WHERE id = a.id;
    PERFORM record_state('account', a.id);
    PERFORM pg_notify('assay', 'keys');
    RETURN true;
END $$;

-- Moves a locked account to a plan and re-enables the keys that ended with a subscription. If the previous plan was
-- paid for in this month, its larger quota counts until the month ends. A plan without webhooks drops the account's
-- endpoint; the host discards its events afterwards.
CREATE OR REPLACE FUNCTION set_plan(a accounts, new_plan text, plans jsonb, paid_until timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    terms jsonb := plans -> new_plan;
    month date  := date_trunc('month', now() AT TIME ZONE 'UTC');
    ended text[];
BEGIN
    IF terms IS NULL THEN
        RAISE EXCEPTION 'there is no plan "%"', new_plan USING ERRCODE = 'no_data_found';
    END IF;
    IF a.quota > (terms ->> 'quota')::integer AND a.plan <> new_plan AND paid_until > month::timestamp AT TIME ZONE 'UTC' THEN
        INSERT INTO quota_usage AS q (chain, account_id, period, used, quota) VALUES (a.chain, a.id, month, 0, a.quota)
        ON CONFLICT (chain, account_id, period) DO UPDATE SET quota = greatest(q.quota, EXCLUDED.quota);
    END IF;
    -- An operator may have raised the quota, so it changes only with the plan.
    UPDATE accounts SET plan = new_plan, quota = (terms ->> 'quota')::integer WHERE id = a.id AND plan <> new_plan;
    IF FOUND THEN
        PERFORM record_state('account', a.id);
    END IF;
    ended := ARRAY(SELECT id FROM api_keys WHERE account_id = a.id AND state = 'cancelled' ORDER BY id);
    UPDATE api_keys SET state = 'valid', ended_at = NULL WHERE account_id = a.id AND state = 'cancelled';
    PERFORM record_state('key', k.id) FROM unnest(ended) AS k (id);
    IF NOT (terms ->> 'webhooks')::boolean THEN
        DELETE FROM webhook_endpoints WHERE account_id = a.id;
    END IF;
    PERFORM pg_notify('assay', 'keys');
END $$;

-- Sets an account's plan, and whether its keys work, from its subscriptions: the plan of the one that serves it, or the
-- plan that the customer chose to have afterwards. paid_until is the end of the previous paid period. The endpoint is
-- locked first, because its rotation can take long.
CREATE OR REPLACE FUNCTION apply_subscriptions(
    of_account text, plans jsonb, serving text[], afterwards text, paid_until timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    a accounts;
    new_plan text;
    ending text[];
BEGIN
    PERFORM FROM webhook_endpoints WHERE account_id = of_account FOR UPDATE;
    a := account_lock(of_account);
    SELECT plan INTO new_plan FROM billing_subscriptions WHERE account_id = a.id AND status = ANY (serving);
    new_plan := coalesce(new_plan, afterwards);
    IF new_plan IS NOT NULL THEN
        PERFORM set_plan(a, new_plan, plans, paid_until);
    ELSIF NOT keys_enabled(a, plans, serving) THEN
        ending := ARRAY(SELECT id FROM api_keys WHERE account_id = a.id AND state = 'valid' ORDER BY id);
        UPDATE api_keys SET state = 'cancelled', ended_at = now() WHERE account_id = a.id AND state = 'valid';
        PERFORM record_state('key', k.id) FROM unnest(ending) AS k (id);
        PERFORM pg_notify('assay', 'keys');
    END IF;
END $$;

-- The end of the last period that an ended subscription of an account was paid for, if it lasted until then.
CREATE OR REPLACE FUNCTION ended_paid_until(of_account text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT max(paid_until) FROM billing_subscriptions
    WHERE account_id = of_account AND status = 'canceled' AND ends_at >= paid_until
$$;

-- Adds an account. Its own chain is locked before that of states, as other functions do.
CREATE OR REPLACE FUNCTION insert_account(account jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts (id, plan, quota, salt, chain)
    SELECT id, plan, quota, salt, chain FROM jsonb_populate_record(NULL::accounts, account);
    PERFORM audit_lock((account ->> 'chain')::integer);
    PERFORM record_state('account', account ->> 'id');
END $$;

-- Billing ---------------------------------------------------------------------------------------------------------

-- Returns the ids of a checkout and of the others of its account or browser.
CREATE OR REPLACE FUNCTION related_checkouts(checkout text) RETURNS SETOF text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT c.id FROM billing_checkouts AS m JOIN billing_checkouts AS c
        ON c.id = m.id OR c.account_id = m.account_id OR EXISTS (SELECT FROM billing_tabs AS t
            WHERE (t.checkout_id, t.earlier) IN ((c.id, m.id), (m.id, c.id)))
        WHERE m.id = checkout;
END $$;

-- Begins a checkout. One that is paid already comes with a new account, or moves an account that no subscription serves
-- to its plan. Returns the reason for a refusal, or an empty text.
CREATE OR REPLACE FUNCTION begin_checkout(checkout jsonb, account jsonb, plans jsonb, serving text[]) RETURNS text
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
        PERFORM set_plan(a, c.plan, plans, ended_paid_until(a.id));
    END IF;
    INSERT INTO billing_checkouts SELECT c.*;
    RETURN '';
END $$;

-- Issues the key of a checkout that the host has read, in place of the given one, which must be unused. Returns the
-- reason for a refusal, 'ended' if the subscription has since ended (then the key can only sign in), or an empty text.
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
        WHERE id = replaces AND state = 'valid' AND expires_at IS NULL AND NOT used;
        IF NOT FOUND THEN
            RETURN 'in use';
        END IF;
        PERFORM record_state('key', replaces);
        PERFORM pg_notify('assay', 'keys');
    END IF;
    ended := NOT keys_enabled(a, plans, serving);
    PERFORM insert_key(key || CASE WHEN ended THEN jsonb_build_object('state', 'cancelled', 'ended_at', at_time)
        ELSE jsonb_build_object('state', 'valid') END);
    PERFORM record_state('key', key ->> 'id');
    UPDATE billing_checkouts SET state = c.state, key_id = c.key_id, reissues = c.reissues, claimed_at = c.claimed_at
        WHERE id = c.id;
    RETURN CASE WHEN ended THEN 'ended' ELSE '' END;
END $$;

-- Stores a subscription that the host has read at the provider, after it had read the checkout and the subscription
-- here, and changes the account accordingly. The account is that of a customer who has just paid, or null. If another
-- live subscription serves the account, or the one that the customer paid for in another tab, this one is to be
-- refunded and changes nothing.
CREATE OR REPLACE FUNCTION apply_billing(
    of_checkout text, checkout_before text, subscription_before text, subscription jsonb, paid boolean, account jsonb,
    plans jsonb, serving text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    sub billing_subscriptions := jsonb_populate_record(NULL::billing_subscriptions, subscription);
    c billing_checkouts;
    s billing_subscriptions;
    other_tab text; -- the account that was paid for in another tab
    read_at timestamptz;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    SELECT * INTO c FROM billing_checkouts WHERE id = of_checkout FOR UPDATE;
    IF subscription_before IS NULL THEN -- a placeholder, so that others that have read it wait
        INSERT INTO billing_subscriptions (id, provider) VALUES (sub.id, sub.provider) ON CONFLICT (id) DO NOTHING;
        IF FOUND THEN
            subscription_before := (SELECT b::text FROM billing_subscriptions AS b WHERE id = sub.id);
        END IF;
    END IF;
    SELECT * INTO s FROM billing_subscriptions WHERE id = sub.id FOR UPDATE;
    IF (c.id IS NOT NULL AND c::text IS DISTINCT FROM checkout_before)
            OR (c.id IS NULL AND checkout_before IS NOT NULL) OR s::text IS DISTINCT FROM subscription_before THEN
        RAISE EXCEPTION 'the subscription has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    IF account IS NOT NULL THEN
        PERFORM FROM billing_tabs AS t WHERE t.checkout_id = of_checkout OR t.earlier = of_checkout
            ORDER BY t.checkout_id, t.earlier FOR UPDATE; -- payments in two tabs take turns
        SELECT b.account_id INTO other_tab FROM billing_tabs AS t
            JOIN billing_checkouts AS k ON k.id IN (t.checkout_id, t.earlier) AND k.id <> of_checkout
            JOIN billing_subscriptions AS b ON b.account_id = k.account_id
            WHERE (t.checkout_id = of_checkout OR t.earlier = of_checkout)
                AND b.status NOT IN ('incomplete', 'canceled')
            LIMIT 1;
        IF FOUND THEN
            sub.account_id := other_tab;
        ELSE
            PERFORM insert_account(account);
        END IF;
    END IF;
    IF paid THEN
        UPDATE billing_checkouts SET state = 'paid', account_id = sub.account_id WHERE id = of_checkout;
    END IF;
    IF sub.account_id IS NOT NULL AND sub.status NOT IN ('incomplete', 'canceled') THEN
        PERFORM FROM webhook_endpoints WHERE account_id = sub.account_id FOR UPDATE; -- see apply_subscriptions
        PERFORM account_lock(sub.account_id);
        IF EXISTS (SELECT FROM billing_subscriptions AS b WHERE b.account_id = sub.account_id AND b.id <> sub.id
                AND b.status NOT IN ('incomplete', 'canceled')) THEN
            INSERT INTO billing_refunds (subscription_id, account_id, checkout_id)
            VALUES (sub.id, sub.account_id, CASE WHEN paid THEN of_checkout END) ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM billing_refunds WHERE subscription_id = sub.id) THEN
        sub.account_id := NULL;
    END IF;
    read_at := clock_timestamp();
    UPDATE billing_subscriptions
    SET account_id = sub.account_id, customer = sub.customer, plan = sub.plan, next_plan = sub.next_plan,
        status = sub.status, paid_until = sub.paid_until, ends_at = sub.ends_at, changed_at = read_at
    WHERE id = sub.id;
    IF sub.account_id IS NOT NULL THEN
        PERFORM apply_subscriptions(sub.account_id, plans, serving,
            CASE WHEN sub.status = 'canceled' AND s.status <> 'canceled' THEN nullif(sub.next_plan, '') END,
            CASE WHEN sub.status <> 'canceled' OR sub.ends_at >= s.paid_until
                THEN greatest(s.paid_until, ended_paid_until(sub.account_id)) END);
    END IF;
END $$;

-- The reputation graph --------------------------------------------------------------------------------------------
--
-- Each read looks up one node at a time, and reads no more of it than it needs: a large mail provider has a row for
-- every customer.

-- The number of an account in the graph; 0 for '', which means all accounts or none. Hosts compute it too (graphAccount
-- in host/store/graph.go).
CREATE OR REPLACE FUNCTION graph_account(id text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN id = '' THEN 0
        ELSE ('x' || encode(substr(sha256(convert_to(id, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint END
$$;

-- Applies what a host has read and added up: the contributions of a chain after number_of_applied up to number up_to.
-- It does nothing and returns false if another host has applied or is applying contributions of the chain, or if
-- something was forgotten since the host looked. The rows are in the order of their keys, so that hosts that apply
-- other chains lock common rows in the same order. Losing the latest transactions in a crash is harmless: the
-- contributions are then back too.
CREATE OR REPLACE FUNCTION graph_apply(
    of_chain integer, of_applied bigint, of_forgets bigint, up_to bigint, batches integer,
    nodes bytea[], accounts bigint[], kinds text[], counts integer[], blocks integer[], reviews integer[],
    since timestamptz[], until timestamptz[], times bytea[],
    edge_nodes bytea[], edge_others bytea[], edge_accounts bigint[], edge_counts integer[], edge_until timestamptz[],
    bad_seqs bigint[], bad_items bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    deleted integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '500ms', true);
    PERFORM FROM graph_progress
        WHERE chain = of_chain AND applied = of_applied AND forgets = of_forgets FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO graph_sightings AS g
        (node, account, kind, checks, blocked, reviewed, first_seen, last_seen, recent)
    SELECT * FROM unnest(nodes, accounts, kinds, counts, blocks, reviews, since, until, times)
    ON CONFLICT (node, account) DO UPDATE SET
        checks = least(g.checks::bigint + EXCLUDED.checks, 2147483647),
        blocked = least(g.blocked::bigint + EXCLUDED.blocked, 2147483647),
        reviewed = least(g.reviewed::bigint + EXCLUDED.reviewed, 2147483647),
        last_seen = greatest(g.last_seen, EXCLUDED.last_seen),
        recent = substring(EXCLUDED.recent || g.recent, 1, 256);
    INSERT INTO graph_edges AS g (node, other, account, checks, last_seen)
    SELECT * FROM unnest(edge_nodes, edge_others, edge_accounts, edge_counts, edge_until)
    ON CONFLICT (node, account, other) DO UPDATE SET
        checks = least(g.checks::bigint + EXCLUDED.checks, 2147483647),
        last_seen = greatest(g.last_seen, EXCLUDED.last_seen);
    INSERT INTO graph_unreadable (chain, seq, item)
    SELECT of_chain, b.seq, b.item FROM unnest(bad_seqs, bad_items) AS b (seq, item)
    ON CONFLICT (chain, seq) DO NOTHING;
    DELETE FROM graph_contributions WHERE chain = of_chain AND seq <= up_to;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    IF deleted <> batches THEN
        RAISE 'chain % has % batches of contributions up to %, not %', of_chain, deleted, up_to, batches;
    END IF;
    DELETE FROM graph_forgotten AS f WHERE f.chain = of_chain AND f.up_to <= graph_apply.up_to;
    UPDATE graph_progress SET applied = up_to WHERE chain = of_chain;
    RETURN true;
END $$;

-- Leaves a node of an account out of contributions that are not applied yet. An empty account selects all accounts, and
-- an empty node all nodes. Applied contributions are in the graph when it returns. It keeps the progress of the
-- account's chain locked until the transaction ends.
CREATE OR REPLACE FUNCTION graph_forget_pending(of_account text, of_node bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    owner bigint := graph_account(of_account);
    home integer := (SELECT a.chain FROM accounts AS a WHERE a.id = of_account);
    p graph_progress;
    pending bigint;
BEGIN
    FOR p IN SELECT * FROM graph_progress WHERE chain = coalesce(home, chain) ORDER BY chain LOOP
        SELECT * INTO p FROM graph_progress WHERE chain = p.chain FOR UPDATE;
        pending := (SELECT max(c.seq) FROM graph_contributions AS c WHERE c.chain = p.chain AND c.seq > p.applied);
        IF pending IS NOT NULL THEN
            INSERT INTO graph_forgotten (chain, account, node, up_to)
            VALUES (p.chain, owner, of_node, pending)
            ON CONFLICT (chain, account, node) DO UPDATE SET up_to = EXCLUDED.up_to;
            UPDATE graph_progress SET forgets = forgets + 1 WHERE chain = p.chain;
        END IF;
    END LOOP;
END $$;

-- Deletes up to most links of a node, and their share of the sightings of its parents. Linked entities keep their
-- sightings, because they were checked themselves. An empty account selects all accounts. Returns the number of links.
CREATE OR REPLACE FUNCTION graph_unlink(of_account text, of_node bytea, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    owner bigint := graph_account(of_account);
    others bytea[];
    owners bigint[];
    counts integer[];
BEGIN
    SELECT array_agg(l.other), array_agg(l.account) INTO others, owners FROM (
        SELECT other, account FROM graph_edges WHERE node = of_node AND owner IN (0, account) LIMIT most
    ) AS l;
    WITH deleted AS (
        DELETE FROM graph_edges AS g USING unnest(others, owners) AS l (other, account)
        WHERE g.node = of_node AND g.other = l.other AND g.account = l.account
        RETURNING g.other, g.account, g.checks
    )
    SELECT array_agg(other), array_agg(account), array_agg(checks) FROM deleted INTO others, owners, counts;
    DELETE FROM graph_edges AS g USING unnest(others, owners) AS l (other, account)
        WHERE g.node = ANY (others) AND g.node = l.other AND g.other = of_node AND g.account = l.account;
    UPDATE graph_sightings AS g SET checks = g.checks - l.checks
        FROM unnest(others, owners, counts) AS l (other, account, checks)
        WHERE g.node = ANY (others) AND g.node = l.other AND g.account = l.account
            AND g.kind NOT IN ('domain', 'email', 'phone', 'iban');
    DELETE FROM graph_sightings
        WHERE node = ANY (others) AND account = ANY (owners) AND checks <= 0
            AND kind NOT IN ('domain', 'email', 'phone', 'iban');
    RETURN coalesce(cardinality(others), 0);
END $$;

-- Deletes an entity's node: its sightings and its links. An empty account selects all accounts.
CREATE OR REPLACE FUNCTION graph_forget_node(of_account text, of_node bytea, OUT sightings bigint, OUT links bigint)
LANGUAGE plpgsql AS $$
DECLARE
    owner bigint := graph_account(of_account);
BEGIN
    PERFORM graph_forget_pending(of_account, of_node);
    links := graph_unlink(of_account, of_node, NULL);
    DELETE FROM graph_sightings WHERE node = of_node AND owner IN (0, account);
    GET DIAGNOSTICS sightings = ROW_COUNT;
END $$;

-- For each node that was seen since the given time, in their order: whether enough customers saw it, and what the
-- account observed. Account 0 selects none. It is one statement, which keeps its plan: Postgres would plan it anew in
-- every call that names fewer than ten nodes, and planning takes longer than running it. Citus can do neither, so a
-- cluster has citus_graph_known.sql of package store instead.
CREATE OR REPLACE FUNCTION graph_known(
    nodes bytea[], accounts bigint[], public_account bigint, since timestamptz, enough integer
) RETURNS TABLE (i bigint, known boolean, first_seen timestamptz, recent bytea)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
        SELECT n.i, seen.customers >= enough, own.first_seen, own.recent
        FROM unnest(nodes, accounts) WITH ORDINALITY AS n (node, account, i)
        CROSS JOIN LATERAL (
            SELECT count(*) AS customers FROM (
                SELECT FROM graph_sightings AS g
                WHERE g.node = n.node AND g.account <> public_account AND g.last_seen > since LIMIT enough
            ) AS s
        ) AS seen
        LEFT JOIN LATERAL (
            SELECT g.first_seen, g.recent FROM graph_sightings AS g
            WHERE n.account <> 0 AND g.node = n.node AND g.account = n.account AND g.last_seen > since LIMIT 1
        ) AS own ON true
        WHERE seen.customers > 0;
END $$;

-- What each customer observed of each node.
CREATE OR REPLACE FUNCTION graph_rows(nodes bytea[], public_account bigint, since timestamptz, most integer)
RETURNS SETOF graph_sightings LANGUAGE plpgsql STABLE AS $$
DECLARE
    one bytea;
BEGIN
    FOREACH one IN ARRAY nodes LOOP
        RETURN QUERY SELECT * FROM graph_sightings AS g
            WHERE g.node = one AND g.account <> public_account AND g.last_seen > since LIMIT most;
    END LOOP;
END $$;

-- The links of each node. For a node with more than most, it returns up to share for each customer. If these are still
-- more than most, the node is a hub and has one row without another node instead: it takes several customers to hide a
-- node's links. The customers are found one by one through the index, because one of them may have a million links.
CREATE OR REPLACE FUNCTION graph_neighbours(
    nodes bytea[], public_account bigint, since timestamptz, most integer, share integer
) RETURNS SETOF graph_edges LANGUAGE plpgsql STABLE AS $$
DECLARE
    one bytea;
    customers bigint[]; -- one for each link, and then each once
    customer bigint;
    counted integer;
BEGIN
    FOREACH one IN ARRAY nodes LOOP
        customers := ARRAY(SELECT g.account FROM graph_edges AS g
            WHERE g.node = one AND g.account <> public_account AND g.last_seen > since LIMIT most + 1);
        IF cardinality(customers) <= most THEN
            RETURN QUERY SELECT * FROM graph_edges AS g
                WHERE g.node = one AND g.account <> public_account AND g.last_seen > since;
            CONTINUE;
        END IF;
        counted := most + 1;
        IF EXISTS (SELECT FROM unnest(customers) AS c GROUP BY c HAVING count(*) > share) THEN
            customers := '{}';
            customer := -9223372036854775808; -- the least number, which no account has
            counted := 0;
            WHILE counted <= most LOOP
                customer := (SELECT g.account FROM graph_edges AS g
                    WHERE g.node = one AND g.account > customer ORDER BY g.account LIMIT 1);
                EXIT WHEN customer IS NULL;
                CONTINUE WHEN customer = public_account;
                customers := customers || customer;
                counted := counted + (SELECT count(*) FROM (SELECT FROM graph_edges AS g
                    WHERE g.node = one AND g.account = customer AND g.last_seen > since LIMIT share) AS s);
            END LOOP;
        END IF;
        IF counted > most THEN
            RETURN QUERY SELECT since, 0::bigint, 0, one, NULL::bytea;
        ELSE
            RETURN QUERY SELECT l.* FROM unnest(customers) AS c CROSS JOIN LATERAL (SELECT * FROM graph_edges AS g
                WHERE g.node = one AND g.account = c AND g.last_seen > since LIMIT share) AS l;
        END IF;
    END LOOP;
END $$;

-- Data subjects ---------------------------------------------------------------------------------------------------

-- Erases records of a subject that the host has read, with their webhook events, feedback, reviews and answers, the
-- subject's exports and its node in the reputation graph, and appends the entry that documents it. Returns how many
-- other rows were deleted. Without records, an entry is appended only if the graph had sightings or links. If the node
-- has more links than max_links, it deletes as many of them and nothing else, and partial is true.
--
-- It locks the head last, because checks wait for the head until the commit is on disk. If the subject was checked just
-- before, the last step of an erasure fails with a conflict, and nothing is erased.
CREATE OR REPLACE FUNCTION audit_erase(
    of_chain integer, of_account text, by_key text, at_time timestamptz,
    of_pseudonym bytea, of_node bytea, max_links integer, subject_tombstone bytea,
    -- The records, in ascending order, and the tombstones of their references.
    seqs bigint[], times timestamptz[], refs text[], leaves bytea[], tombstones bytea[],
    checks integer, -- how many of them are checks
    complete bigint, -- the record of the chain up to which they are all of the subject's; null: there are more
    entry jsonb,
    OUT events bigint, OUT sightings bigint, OUT links bigint, OUT recorded boolean, OUT partial boolean
) LANGUAGE plpgsql AS $$
DECLARE
    owner bigint := graph_account(of_account);
    n integer := cardinality(seqs);
    found_rows integer;
    erasure bigint;
    told bytea[]; -- the keys of the answers about the subject
BEGIN
    PERFORM set_config('lock_timeout', '3s', true), pg_notify('assay', 'erasures ' || encode(of_pseudonym, 'hex'));
    PERFORM delete_exports(of_chain, of_account, subject_tombstone);
    events := 0;
    sightings := 0;
    links := 0;
    recorded := false;
    partial := (SELECT count(*) > max_links FROM (SELECT 1 FROM graph_edges
        WHERE node = of_node AND account = owner LIMIT max_links + 1) AS e);
    IF partial THEN
        PERFORM FROM graph_progress WHERE chain = of_chain FOR UPDATE;
        links := graph_unlink(of_account, of_node, max_links);
        RETURN;
    END IF;
    IF n > 0 THEN
        -- Its place stays in the chain, with leaf and hash.
        UPDATE audit_records AS r
        SET kind = 'erased', ref = NULL, account_id = '', key_id = '', type = '', pseudonym = NULL,
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
        -- After the records, because feedback and requests for reviews lock the record.
        DELETE FROM feedback WHERE chain = of_chain AND seq = ANY (seqs);
        DELETE FROM reviews WHERE chain = of_chain AND seq = ANY (seqs);
        -- Found before the head is locked, and deleted afterwards: a batch that replaces one holds the head's lock.
        told := ARRAY(SELECT a.key_hash FROM answers AS a
            WHERE a.chain = of_chain AND a.account_id = of_account AND of_pseudonym = ANY (a.subjects));
    END IF;
    -- A host may be applying contributions to the graph: wait for that.
    PERFORM FROM graph_progress WHERE chain = of_chain FOR UPDATE;
    IF of_node IS NOT NULL THEN
        SELECT * INTO sightings, links FROM graph_forget_node(of_account, of_node);
    END IF;
    erasure := (audit_lock(of_chain)).seq + 1;
    PERFORM require_key(of_account, by_key, at_time);
    -- A later check has lost its contribution to the graph.
    IF EXISTS (SELECT FROM generate_series(complete >> 16, erasure >> 16) AS span JOIN audit_records AS r
            ON r.chain = of_chain AND r.seq >> 16 = span AND r.seq > complete
                AND substr(r.pseudonym, 1, 8) = substr(of_pseudonym, 1, 8) AND r.pseudonym = of_pseudonym) THEN
        RAISE EXCEPTION 'the subject has later audit records' USING ERRCODE = 'serialization_failure';
    END IF;
    DELETE FROM answers WHERE chain = of_chain AND account_id = of_account AND key_hash = ANY (told);
    recorded := n > 0 OR sightings + links > 0;
    IF NOT recorded THEN
        RETURN;
    END IF;
    INSERT INTO erased_records (chain, seq, leaf, erasure, ref)
        SELECT of_chain, g.seq, g.leaf, erasure, g.ref FROM unnest(seqs, leaves, tombstones) AS g (seq, leaf, ref);
    INSERT INTO erasures (chain, seq, subject, checks) VALUES (of_chain, erasure, subject_tombstone, checks);
    PERFORM audit_append(of_chain, entry);
END $$;

-- Records the disclosure of a subject's data, unless the subject was erased meanwhile: the host passes the subject's
-- last record, which an erasure erases last.
CREATE OR REPLACE FUNCTION audit_export(
    of_chain integer, of_account text, by_key text, at_time timestamptz, of_pseudonym bytea,
    of_seq bigint, at_record timestamptz, entry jsonb
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM audit_lock(of_chain);
    PERFORM require_key(of_account, by_key, at_time);
    IF EXISTS (SELECT FROM audit_records AS r WHERE r.chain = of_chain AND r.seq = of_seq AND r.recorded_at = at_record
            AND r.pseudonym = of_pseudonym) THEN
        PERFORM audit_append(of_chain, entry);
    END IF;
END $$;

-- Stores a part of an export and renews the host's lease. Returns false if the export was deleted, or another host has
-- stored the part.
CREATE OR REPLACE FUNCTION store_export_part(
    of_chain integer, of_id text, from_seq bigint, to_seq bigint, checks integer, after_check bytea, part bytea,
    is_last boolean, lease interval
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ended timestamptz := CASE WHEN is_last THEN now() END;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    UPDATE subject_requests
    SET at_seq = to_seq, done = done + checks, lease_until = now() + lease,
        state = CASE WHEN is_last THEN 'done' ELSE 'running' END, sealed = CASE WHEN NOT is_last THEN sealed END,
        settled_at = ended
    WHERE chain = of_chain AND id = of_id AND state = 'running' AND at_seq = from_seq;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO export_parts (chain, id, after, sealed) VALUES (of_chain, of_id, after_check, part);
    RETURN true;
END $$;

-- Deletes an account's exports of a subject, finished or not. Returns the number that had data.
CREATE OR REPLACE FUNCTION delete_exports(of_chain integer, of_account text, of_subject bytea) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    ids text[];
    ended timestamptz := now();
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    UPDATE subject_requests SET state = 'deleted', sealed = NULL, settled_at = coalesce(settled_at, ended)
        WHERE chain = of_chain AND account_id = of_account AND subject = of_subject AND kind = 'export'
            AND state IN ('running', 'done');
    ids := ARRAY(SELECT id FROM subject_requests
        WHERE chain = of_chain AND account_id = of_account AND subject = of_subject AND kind = 'export');
    DELETE FROM export_parts WHERE chain = of_chain AND id = ANY (ids);
    RETURN cardinality(ids);
END $$;

-- Locks the record of a check that the host has read, so that it is neither erased nor pruned meanwhile.
CREATE OR REPLACE FUNCTION lock_check(of_chain integer, of_seq bigint, of_ref text, of_account text, at_check timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    PERFORM 1 FROM audit_records
        WHERE chain = of_chain AND seq = of_seq AND recorded_at = at_check AND ref = of_ref AND account_id = of_account
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the check was erased or pruned' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

-- Keeps an account's feedback on a check that the host has read, in place of earlier feedback, and makes it the
-- account's vote on the entity; without a label, deletes it. Returns whether layer scores are kept with it.
--
-- It locks the record before the sighting, as an erasure does: an erasure that waited for the sighting would keep
-- checks waiting for the head.
CREATE OR REPLACE FUNCTION give_feedback(
    of_chain integer, of_seq bigint, of_ref text, of_account text, of_pseudonym bytea, of_type text,
    checked_at timestamptz,
    of_node bytea, -- of the entity; null: the check has no vote
    new_label text, note bytea,
    scores jsonb, -- null: those of the earlier feedback stay
    at_time timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner bigint := graph_account(of_account);
    vote text := new_label;
    scored boolean := false;
BEGIN
    PERFORM lock_check(of_chain, of_seq, of_ref, of_account, checked_at);
    IF vote IS NULL THEN -- the account's latest other report decides
        vote := (SELECT f.label FROM feedback AS f
            WHERE f.chain = of_chain AND f.account_id = of_account AND f.pseudonym = of_pseudonym AND f.seq <> of_seq
            ORDER BY f.given_at DESC, f.ref DESC LIMIT 1);
    ELSIF of_node IS NOT NULL AND EXISTS (
        SELECT 1 FROM graph_contributions AS c
        WHERE c.chain = of_chain AND c.seq >= of_seq AND c.seq - c.items < of_seq
    ) AND NOT EXISTS (
        SELECT 1 FROM graph_forgotten AS f
        WHERE f.chain = of_chain AND f.account IN (0, owner) AND f.node IN ('', of_node)
            AND f.up_to >= of_seq
    ) THEN -- the sighting of a check that is not in the graph yet begins with the vote
        INSERT INTO graph_sightings
            (node, account, kind, checks, blocked, reviewed, first_seen, last_seen, label)
        VALUES (of_node, owner, of_type, 0, 0, 0, checked_at, checked_at, vote)
        ON CONFLICT (node, account) DO NOTHING;
    END IF;
    IF of_node IS NOT NULL THEN
        UPDATE graph_sightings SET label = coalesce(vote, '') WHERE node = of_node AND account = owner;
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

-- Asks for a review of a check that the host has read, unless one was asked for. It locks the record first, as feedback
-- does.
CREATE OR REPLACE FUNCTION ask_review(
    of_chain integer, of_seq bigint, of_ref text, of_account text, at_check timestamptz, reason bytea,
    at_time timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_check(of_chain, of_seq, of_ref, of_account, at_check);
    INSERT INTO reviews (chain, seq, checked_at, ref, account_id, state, sealed_reason, asked_at)
    VALUES (of_chain, of_seq, at_check, of_ref, of_account, 'asked', reason, at_time)
    ON CONFLICT (chain, seq) DO NOTHING;
    RETURN true;
END $$;

-- Settles a review that a person has taken, and makes an overturned verdict feedback. Returns false if the person has
-- not taken it, or it is settled.
CREATE OR REPLACE FUNCTION settle_review(
    of_chain integer, of_seq bigint, of_ref text, of_account text, of_pseudonym bytea, of_type text,
    at_check timestamptz, of_node bytea, by_person text, new_state text, reason bytea, finding bytea,
    at_time timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_check(of_chain, of_seq, of_ref, of_account, at_check);
    UPDATE reviews SET state = new_state, sealed_reason = reason, sealed_finding = finding, settled_at = at_time
        WHERE chain = of_chain AND seq = of_seq AND state = 'taken' AND reviewer = by_person;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- The customer may know more by now than the person who settled the review.
    IF new_state = 'overturned' AND NOT EXISTS (SELECT FROM feedback AS f WHERE f.chain = of_chain AND f.seq = of_seq) THEN
        PERFORM give_feedback(of_chain, of_seq, of_ref, of_account, of_pseudonym, of_type, at_check, of_node,
            'legitimate', NULL, NULL, at_time);
    END IF;
    RETURN true;
END $$;

-- Webhook endpoints -----------------------------------------------------------------------------------------------
--
-- The outcomes of deliveries and changes of the account's plan wait for an endpoint's row.

-- Sets an account's endpoint with its only secret, and enables it. Returns false if the account's plan has no webhooks.
CREATE OR REPLACE FUNCTION set_endpoint(of_account text, new_url text, new_secret bytea, plans jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    INSERT INTO webhook_endpoints (account_id, url, sealed_secret) VALUES (of_account, new_url, new_secret)
    ON CONFLICT (account_id) DO UPDATE
    SET url = EXCLUDED.url, sealed_secret = EXCLUDED.sealed_secret, created_at = EXCLUDED.created_at,
        failing_since = NULL, failed_at = NULL, disabled_at = NULL, disabled_reason = NULL, notice = NULL;
    DELETE FROM webhook_old_secrets WHERE account_id = of_account;
    IF (plans -> (account_lock(of_account)).plan ->> 'webhooks')::boolean THEN
        RETURN true;
    END IF;
    DELETE FROM webhook_endpoints WHERE account_id = of_account;
    RETURN false;
END $$;

-- Replaces the secret of an account's endpoint. The signing secret stays in use until the switch, even if the one
-- replaced is newer and has not signed yet. Returns false if there is no endpoint.
CREATE OR REPLACE FUNCTION rotate_secret(of_account text, new_secret bytea, switch_in interval)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    current_secret bytea;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    SELECT sealed_secret INTO current_secret FROM webhook_endpoints WHERE account_id = of_account FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM webhook_old_secrets WHERE account_id = of_account AND (ends_at <= now() OR switch_in <= interval '0');
    UPDATE webhook_old_secrets SET ends_at = now() + switch_in WHERE account_id = of_account;
    IF NOT FOUND AND switch_in > interval '0' THEN
        INSERT INTO webhook_old_secrets (account_id, sealed_secret, replaced_at, ends_at)
        VALUES (of_account, current_secret, clock_timestamp(), now() + switch_in);
    END IF;
    UPDATE webhook_endpoints SET sealed_secret = new_secret WHERE account_id = of_account;
    RETURN true;
END $$;

-- Removes an account's endpoint, fails its pending events and deletes all payloads. Returns false if there is none.
CREATE OR REPLACE FUNCTION remove_endpoint(of_account text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ended timestamptz := now();
    home integer := (SELECT a.chain FROM accounts AS a WHERE a.id = of_account);
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    DELETE FROM webhook_endpoints WHERE account_id = of_account;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE webhook_events
    SET sealed_payload = NULL, state = 'failed', next_attempt_at = NULL, leased_until = NULL,
        settled_at = least(settled_at, ended) -- null counts as later
    WHERE chain = home AND account_id = of_account AND sealed_payload IS NOT NULL;
    RETURN true;
END $$;

-- Lists and overrides ---------------------------------------------------------------------------------------------

-- Ends the claim of a subscription whose publisher still has the stored content. Returns whether the claim held.
CREATE OR REPLACE FUNCTION confirm_list(
    of_name text, claimed_until timestamptz, at_time timestamptz, next timestamptz, fresh timestamptz,
    expires timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE feed_subscriptions
    SET leased_until = NULL, next_fetch_at = next, confirmed_at = at_time, failing_since = NULL, failures = 0,
        error = '', held_entries = NULL, accepted_entries = NULL
    WHERE name = of_name AND leased_until = claimed_until;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE feeds SET fresh_until = fresh, expires_at = expires WHERE name = of_name;
    IF FOUND THEN
        PERFORM record_state('list', of_name);
    END IF;
    RETURN true;
END $$;

-- Disables a list and ends its subscription. Returns whether either existed. Its entries are deleted later.
CREATE OR REPLACE FUNCTION withdraw_list(of_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    subscribed boolean;
BEGIN
    DELETE FROM feed_subscriptions WHERE name = of_name;
    subscribed := FOUND;
    DELETE FROM feeds WHERE name = of_name;
    IF FOUND THEN
        PERFORM pg_notify('assay', 'feeds');
        PERFORM append_state('list', '', of_name, 'removed', 0, 0, NULL);
        PERFORM append_state('list content', '', of_name, 'removed', 0, 0, NULL);
        RETURN true;
    END IF;
    RETURN subscribed;
END $$;

-- Rewrites the table of entries when most of its pages are nearly empty. VACUUM only returns the pages at the end of a
-- table. Postgres estimates costs from the number of pages, and would scan the whole table even for a small lookup.
-- Lookups wait for the rewrite, so it is left to the next import if lists change at the moment (of_lock is held) or
-- others read the table for long.
CREATE OR REPLACE FUNCTION compact_entries(of_lock bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    min_pages    CONSTANT integer := 1000; -- smaller tables are not worth compacting
    min_per_page CONSTANT integer := 10;   -- entries; a full page has several times as many
    pages bigint := pg_relation_size('feed_entries') / 8192;
BEGIN
    IF pages <= min_pages OR (SELECT count(*) FROM feed_entries) > pages * min_per_page
            OR NOT pg_try_advisory_xact_lock(of_lock) THEN
        RETURN;
    END IF;
    -- A waiting exclusive lock blocks every later lookup.
    PERFORM set_config('lock_timeout', '200ms', true);
    BEGIN
        LOCK TABLE feed_entries IN ACCESS EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    CLUSTER feed_entries USING feed_entries_by_node; -- TRUNCATE would hide the entries from transactions that run
    ANALYZE feed_entries;
END $$;

-- Records a change of an account's overrides. Its lock lasts until the commit, so a host that has seen a number never
-- misses a lower one.
CREATE OR REPLACE FUNCTION override_changed(of_account text) RETURNS void LANGUAGE plpgsql AS $$
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
-- the same value, whose removal is recorded too. The key is '' if the operator adds it. Returns the reason for a
-- refusal, or an empty text.
CREATE OR REPLACE FUNCTION override_add(
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
    IF max_overrides > 0 AND NOT EXISTS (SELECT FROM overrides WHERE id = replaces AND expires_at > at_time)
            AND (SELECT count(*) FROM overrides
                WHERE account_id = o.account_id AND expires_at > at_time) >= max_overrides THEN
        RETURN 'too many';
    END IF;
    IF replaces <> '' THEN
        DELETE FROM overrides WHERE id = replaces;
        PERFORM audit_append(of_chain, removed);
        PERFORM append_state('override', o.account_id, replaces, 'removed', 0, 0, NULL);
    END IF;
    INSERT INTO overrides SELECT o.*;
    PERFORM audit_append(of_chain, added);
    PERFORM record_state('override', o.id);
    PERFORM pg_notify('assay', 'overrides');
    RETURN '';
END $$;

-- Removes an override that the host has read, and appends its entry to the chain. Returns whether it was there.
CREATE OR REPLACE FUNCTION override_remove(
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
    PERFORM append_state('override', of_account, of_id, 'removed', 0, 0, NULL);
    PERFORM pg_notify('assay', 'overrides');
    RETURN true;
END $$;

-- Plugins and lineups ---------------------------------------------------------------------------------------------

-- Publishes a version of a plugin, and notes about its module, for its owner ('' for nobody, who owns no name). Returns
-- an empty text, or writes nothing and returns 'version' if the version has another module, or the owner if the name
-- belongs to another one. The names of built-in layers are reserved. The release takes names over from their first
-- publishers, but not from owners to whom an operator transferred them.
CREATE OR REPLACE FUNCTION publish_plugin(
    of_name text, of_version text, of_digest bytea, of_wasm bytea, of_manifest jsonb, of_owner text, reserved boolean,
    notes jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    named boolean := false;
    is_new boolean;
    changed boolean;
    holder text;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    IF EXISTS (SELECT FROM plugin_versions AS v
            WHERE v.name = of_name AND v.version = of_version AND v.digest <> of_digest) THEN
        RETURN 'version';
    END IF;
    IF of_owner <> '' THEN
        INSERT INTO plugin_names AS n (name, owner) SELECT of_name, of_owner WHERE of_owner = 'release' OR NOT reserved
        ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner
            WHERE EXCLUDED.owner = 'release' AND n.owner <> 'release' AND n.transfer IS NULL;
        named := FOUND;
        holder := coalesce((SELECT owner FROM plugin_names WHERE name = of_name), 'release');
        IF of_owner NOT IN ('release', holder) THEN
            RETURN holder;
        END IF;
    END IF;
    INSERT INTO plugin_modules (digest, wasm) VALUES (of_digest, of_wasm) ON CONFLICT DO NOTHING;
    changed := FOUND;
    -- One publication of a module at a time, so that each records the notes of those before. This comes before the
    -- version, whose reference to the module would let two publications wait for each other.
    PERFORM FROM plugin_modules WHERE digest = of_digest FOR UPDATE;
    INSERT INTO plugin_versions (name, version, digest, manifest, first_party)
    VALUES (of_name, of_version, of_digest, of_manifest, of_owner = 'release') ON CONFLICT DO NOTHING;
    is_new := FOUND;
    IF (SELECT digest FROM plugin_versions WHERE name = of_name AND version = of_version) <> of_digest THEN
        RAISE EXCEPTION 'the version was published meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO plugin_notes AS n (digest, kind, note)
    SELECT of_digest, key, value FROM jsonb_each_text(notes) ORDER BY key
    ON CONFLICT (digest, kind) DO UPDATE SET note = EXCLUDED.note WHERE n.note <> EXCLUDED.note;
    changed := changed OR FOUND;
    IF changed THEN
        PERFORM record_state('module', encode(of_digest, 'hex'));
    END IF;
    IF named THEN
        PERFORM record_state('name', of_name);
    END IF;
    IF is_new THEN
        PERFORM record_state('plugin', of_name || '@' || of_version);
    END IF;
    PERFORM pg_notify('assay', 'plugins');
    RETURN '';
END $$;

-- Gives the name of a plugin to another owner. Returns whether the name exists.
CREATE OR REPLACE FUNCTION transfer_plugin(of_name text, to_owner text, signed text, reserved boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE plugin_names SET owner = to_owner, transfer = signed WHERE name = of_name;
    IF NOT FOUND AND reserved THEN
        INSERT INTO plugin_names (name, owner, transfer) VALUES (of_name, to_owner, signed);
    ELSIF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM record_state('name', of_name);
    RETURN true;
END $$;

-- Stores a lineup and returns its revision, which is that of an equal lineup if there is one.
CREATE OR REPLACE FUNCTION store_lineup(canonical text, hash bytea, new_origin text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    known bigint;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE; -- serialises changes of the lineup
    SELECT revision INTO known FROM lineup_revisions AS r WHERE r.digest = hash AND r.text = canonical;
    IF NOT FOUND THEN
        known := (SELECT coalesce(max(revision), 0) + 1 FROM lineup_revisions);
        INSERT INTO lineup_revisions (revision, text, digest, origin) VALUES (known, canonical, hash, new_origin);
        PERFORM record_state('lineup', known::text);
    END IF;
    RETURN known;
END $$;

-- Puts a signed activation in force and appends an entry to each chain, if the activation in force has the hash base
-- (null: there is none). Returns the reason for a refusal, or an empty text. A chain whose head was altered is left
-- out: it does not verify anyway.
--
-- The heads are locked before the time is read at which revisions stop being in force, so that checks that were
-- recorded while this waited are before the entry. `audit verify` knows at_time only, so this does not wait long.
CREATE OR REPLACE FUNCTION activate(
    base bytea, new_number bigint, new_signed text, new_hash bytea, new_revision bigint, new_canary bigint,
    new_share integer, new_reason text, at_time timestamptz,
    entries jsonb -- by chain
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
    ended timestamptz;
    new_id bigint;
    changed bigint[];
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE; -- serialises changes of the lineup
    IF base IS DISTINCT FROM (SELECT hash FROM lineup_activations ORDER BY id DESC LIMIT 1) THEN
        RETURN 'base';
    ELSIF new_number <= (SELECT max(number) FROM lineup_activations) THEN
        RETURN 'number';
    END IF;
    INSERT INTO lineup_activations (id, revision, reason, activated_at, number, signed, hash, canary_revision, share)
        SELECT coalesce(max(id), 0) + 1, new_revision, new_reason, at_time, new_number, new_signed, new_hash,
            new_canary, new_share FROM lineup_activations
        RETURNING id INTO new_id;
    PERFORM audit_append_all(entries);
    ended := clock_timestamp();
    IF ended > began + interval '2 s' THEN
        RAISE EXCEPTION 'the activation waited too long for the heads' USING ERRCODE = 'serialization_failure';
    END IF;
    changed := ARRAY(SELECT revision FROM revisions_in_force WHERE until IS NULL);
    UPDATE revisions_in_force SET until = ended
        WHERE until IS NULL AND revision NOT IN (new_revision, coalesce(new_canary, new_revision));
    INSERT INTO revisions_in_force AS f (revision)
        SELECT new_revision UNION SELECT new_canary WHERE new_canary IS NOT NULL
        ON CONFLICT (revision) DO UPDATE SET until = NULL;
    PERFORM record_state('activation', new_id::text);
    PERFORM record_state('lineup', c.revision::text) -- none for null
        FROM (SELECT DISTINCT unnest(changed || ARRAY[new_revision, new_canary]) AS revision ORDER BY 1) AS c;
    PERFORM pg_notify('assay', 'lineup');
    RETURN '';
END $$;
