-- One damaged head or one refused call harms nothing else.

-- Locks the heads of all chains in ascending order, and returns the numbers of the chains. A chain whose head was
-- damaged cannot grow, so it needs no lock.
CREATE OR REPLACE FUNCTION audit_lock_all(patience text) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    all_chains integer[] := ARRAY(SELECT DISTINCT chain FROM audit_heads ORDER BY chain);
    one integer;
BEGIN
    FOREACH one IN ARRAY all_chains LOOP
        BEGIN
            PERFORM audit_lock(one, patience);
        EXCEPTION WHEN data_corrupted THEN -- as reports say that verify the chain
        END;
    END LOOP;
    RETURN all_chains;
END $$;

-- Assigning element n of an empty array makes an array that begins at n, and unnest pairs it with the first elements of
-- the others. So a batch whose first call was refused failed, and was recorded in halves. The arrays now have all their
-- elements from the beginning. Nothing else changes.
CREATE OR REPLACE FUNCTION ledger_append(
    _chain       integer,
    _batch       bytea,         -- random
    _patience    integer,       -- milliseconds to wait for the head
    -- The accounts of the batch and the number of records of each.
    _accounts    text[],
    _needed      integer[],
    -- The callers: a key ('' on the no-key endpoint) and the place of its account in _accounts.
    _keys        text[],
    _owners      integer[],
    -- The calls: the place of the caller in _keys, the number of records, and whether an event has no payload.
    _callers     integer[],
    _sizes       integer[],
    _lacking     boolean[],
    -- The records: the place of the caller, and the columns.
    _caller_of   integer[],
    _recorded_at timestamptz[],
    _at          text[],
    _refs        text[],
    _types       text[],
    _pseudonyms  bytea[],
    _nonces      bytea[],
    _scores      integer[],
    _verdicts    text[],
    _revisions   bigint[],
    _leaves      bytea[],
    _nodes       bytea[],
    _items       bytea[],       -- for graph_contributions, each preceded by its length
    -- The events with a payload: the place of the record, and the columns.
    _event_of    integer[],
    _events      text[],
    _payloads    bytea[]
) RETURNS TABLE (call integer, outcome text, quota integer, remaining integer, resets_at timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    _head     audit_heads := audit_lock(_chain, _patience || 'ms');
    _month    date        := date_trunc('month', now() AT TIME ZONE 'UTC');
    _seq      bigint      := _head.seq;
    _hash     bytea       := _head.hash;
    _number   bytea       := int4send(_chain);
    _seqs     bigint[]    := array_fill(NULL::bigint, ARRAY[cardinality(_leaves)]);
    _hashes   bytea[]     := array_fill(NULL::bytea, ARRAY[cardinality(_leaves)]);
    _valid    boolean[];
    _due      text[]; -- keys whose last use is to be stored
    _quotas   integer[]; -- null: unlimited
    _used     integer[];
    _chains   integer[];
    _endpoint boolean[];
    _disabled boolean[];
    _counted  text[]; -- accounts with checks in this month, and their number
    _counts   integer[];
    _fits     boolean;
    _taken    integer[];
    _first    integer := 1;
    _account  integer;
    _leaf     bytea;
    _place    integer := 0;
BEGIN
    IF EXISTS (SELECT FROM ledger_settlements AS s WHERE s.chain = _chain AND s.batch = _batch) THEN
        RAISE 'the batch was settled before it arrived' USING ERRCODE = 'AS001';
    END IF;

    -- A statement reads either tables of the chain or tables of which each node of a cluster has a copy: Citus requires
    -- that of functions that it passes on to the chain's node.
    SELECT array_agg(c.key = '' OR coalesce(k.state = 'valid' AND (k.expires_at IS NULL OR k.expires_at > now()), false)
               ORDER BY c.n),
           array_agg(c.key) FILTER (WHERE k.id IS NOT NULL)
    INTO _valid, _due
    FROM unnest(_keys, _owners) WITH ORDINALITY AS c (key, owner, n)
    LEFT JOIN api_keys AS k ON k.id = c.key AND k.account_id = _accounts[c.owner];
    _due := ARRAY(SELECT unnest(_due) EXCEPT SELECT u.key_id FROM key_uses AS u
        WHERE u.chain = _chain AND u.key_id = ANY (_due) AND u.used_at > now() - interval '1 minute');

    SELECT array_agg(u.account_id), array_agg(u.used) INTO _counted, _counts
    FROM quota_usage AS u
    WHERE u.chain = _chain AND u.account_id = ANY (_accounts) AND u.period = _month;
    SELECT array_agg(CASE WHEN a.plan <> 'public' THEN a.quota END ORDER BY c.n),
           array_agg(coalesce(u.used, 0) ORDER BY c.n),
           array_agg(a.chain ORDER BY c.n),
           array_agg(e.account_id IS NOT NULL ORDER BY c.n),
           array_agg(e.disabled_at IS NOT NULL ORDER BY c.n),
           bool_and(a.chain IS NOT DISTINCT FROM _chain
               AND (a.plan = 'public' OR coalesce(u.used, 0) + c.needed <= a.quota))
    INTO _quotas, _used, _chains, _endpoint, _disabled, _fits
    FROM unnest(_accounts, _needed) WITH ORDINALITY AS c (account, needed, n)
    LEFT JOIN accounts AS a ON a.id = c.account
    LEFT JOIN webhook_endpoints AS e ON e.account_id = c.account
    LEFT JOIN unnest(_counted, _counts) AS u (account, used) ON u.account = c.account;

    -- Usually every call is accepted. Otherwise the records of those that are not lose their leaf.
    IF NOT _fits OR false = ANY (_valid) OR (true = ANY (_lacking) AND true = ANY (_endpoint)) THEN
        _needed := array_fill(0, ARRAY[cardinality(_accounts)]);
        FOR _call IN 1 .. cardinality(_callers) LOOP
            _account := _owners[_callers[_call]];
            outcome := CASE
                WHEN NOT _valid[_callers[_call]] OR _chains[_account] IS NULL THEN 'unauthorized'
                WHEN _chains[_account] <> _chain THEN 'moved'
                WHEN _used[_account] + _needed[_account] + _sizes[_call] > _quotas[_account] THEN 'quota'
                WHEN _lacking[_call] AND _endpoint[_account] THEN 'event'
            END;
            IF outcome IS NULL THEN
                _needed[_account] := _needed[_account] + _sizes[_call];
            ELSE
                call := _call - 1;
                quota := _quotas[_account];
                remaining := greatest(0, quota - _used[_account] - _needed[_account]);
                resets_at := (_month + interval '1 month') AT TIME ZONE 'UTC';
                RETURN NEXT;
                FOR _i IN _first .. _first + _sizes[_call] - 1 LOOP
                    _leaves[_i] := NULL;
                END LOOP;
            END IF;
            _first := _first + _sizes[_call];
        END LOOP;
    END IF;

    -- The chain, as package audit defines it.
    FOREACH _leaf IN ARRAY _leaves LOOP
        _place := _place + 1;
        CONTINUE WHEN _leaf IS NULL;
        _seq := _seq + 1;
        _hash := sha256('\x01' || _hash || _number || int8send(_seq) || _leaf);
        _seqs[_place] := _seq;
        _hashes[_place] := _hash;
    END LOOP;
    IF _seq = _head.seq THEN
        RETURN;
    END IF;

    INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, key_id, type, pseudonym, nonce, score,
        verdict, revision, leaf, hash, sealed_node)
    SELECT _chain, r.seq, r.recorded_at, r.at, 'check', r.ref, _accounts[_owners[r.caller]], _keys[r.caller], r.type,
        r.pseudonym, r.nonce, r.score, r.verdict, r.revision, r.leaf, r.hash, r.node
    FROM unnest(_seqs, _recorded_at, _at, _refs, _caller_of, _types, _pseudonyms, _nonces, _scores, _verdicts, _revisions,
        _leaves, _hashes, _nodes)
        AS r (seq, recorded_at, at, ref, caller, type, pseudonym, nonce, score, verdict, revision, leaf, hash, node)
    WHERE r.leaf IS NOT NULL;

    INSERT INTO graph_contributions (chain, seq, items, added)
    SELECT _chain, _seq, count(*), string_agg(r.item, ''::bytea ORDER BY r.n)
    FROM unnest(_items, _leaves) WITH ORDINALITY AS r (item, leaf, n)
    WHERE r.leaf IS NOT NULL;

    INSERT INTO quota_usage AS q (chain, account_id, period, used)
    SELECT _chain, c.account, _month, c.needed
    FROM unnest(_accounts, _needed, _quotas) AS c (account, needed, quota)
    WHERE c.needed > 0 AND c.quota IS NOT NULL
    ON CONFLICT (chain, account_id, period) DO UPDATE SET used = q.used + EXCLUDED.used;

    IF cardinality(_due) > 0 THEN
        INSERT INTO key_uses (chain, key_id, used_at)
        SELECT DISTINCT _chain, _keys[r.caller], now()
        FROM unnest(_caller_of, _leaves) AS r (caller, leaf)
        WHERE r.leaf IS NOT NULL AND _keys[r.caller] = ANY (_due)
        ON CONFLICT (chain, key_id) DO UPDATE SET used_at = EXCLUDED.used_at;
    END IF;

    -- The events of an account are numbered in the order of the chain. The head's lock makes the numbers visible in
    -- order, so a reader that has seen number n will never find a lower one later. Events of a disabled endpoint fail
    -- without an attempt. They are kept as long as other failed events and can be resent.
    IF cardinality(_event_of) > 0 THEN
        WITH new AS (
            SELECT e.record, e.event, e.payload, _accounts[_owners[_caller_of[e.record]]] AS account_id,
                _disabled[_owners[_caller_of[e.record]]] AS disabled
            FROM unnest(_event_of, _events, _payloads) AS e (record, event, payload)
            WHERE _leaves[e.record] IS NOT NULL AND _endpoint[_owners[_caller_of[e.record]]]),
        numbered AS (
            INSERT INTO webhook_sequences AS s (chain, account_id, last)
            SELECT _chain, n.account_id, count(*) FROM new AS n GROUP BY n.account_id
            ON CONFLICT (chain, account_id) DO UPDATE SET last = s.last + EXCLUDED.last
            RETURNING s.account_id, s.last)
        INSERT INTO webhook_events (chain, ref, account_id, event, type, score, occurred_at, sealed_payload, sequence,
            state, next_attempt_at, settled_at)
        SELECT _chain, _refs[n.record], n.account_id, n.event, _types[n.record], _scores[n.record],
            _recorded_at[n.record], n.payload,
            s.last + 1 - row_number() OVER (PARTITION BY n.account_id ORDER BY n.record DESC),
            CASE WHEN n.disabled THEN 'failed' ELSE 'pending' END,
            CASE WHEN NOT n.disabled THEN now() END,
            CASE WHEN n.disabled THEN now() END
        FROM new AS n JOIN numbered AS s USING (account_id);
    END IF;

    UPDATE audit_heads AS h SET seq = _seq, hash = _hash WHERE h.chain = _chain AND h.seq = _head.seq;
    IF NOT FOUND THEN
        RAISE 'the head of audit chain % moved under its lock', _chain USING ERRCODE = 'data_corrupted';
    END IF;
END $$;
