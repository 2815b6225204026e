-- What hosts answered for and the database no longer contains, because a failover lost commits or an older dump was
-- restored. A row without "accepted" keeps hosts from answering until an operator accepts the loss.
CREATE TABLE audit_losses (
    chain       integer NOT NULL,
    seq         bigint NOT NULL,      -- of the last record that the host answered for
    hash        bytea NOT NULL,
    answered_at timestamptz NOT NULL, -- when that record was recorded
    survived    bigint NOT NULL,      -- the last record that is known to be there; 0: unknown
    refs        text[] NOT NULL,      -- of lost records, as far as the host remembers them
    host        text NOT NULL,
    found_at    timestamptz NOT NULL DEFAULT now(),
    accepted    bigint,               -- number of the record that accepts the loss
    PRIMARY KEY (chain, seq, hash)
);

-- Signed acceptances of losses, by the number of their record. The Merkle tree goes on under an origin of its own.
CREATE TABLE audit_acceptances (
    chain integer NOT NULL,
    seq   bigint NOT NULL,
    note  text NOT NULL,
    PRIMARY KEY (chain, seq)
);
ALTER TABLE audit_trees ADD COLUMN after bigint NOT NULL DEFAULT 0; -- the last such record; 0: none

-- Whether a chain contains a record, or has pruned it.
CREATE FUNCTION audit_contains(of_chain integer, of_seq bigint, at_time timestamptz, of_hash bytea) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM audit_records AS r
            WHERE r.chain = of_chain AND r.seq = of_seq AND r.recorded_at = at_time AND r.hash = of_hash)
        OR EXISTS (SELECT FROM audit_anchors AS a WHERE a.chain = of_chain AND a.seq >= of_seq);
END $$;

-- Accepts losses of a chain: appends the record of the acceptance. Returns its number. Fails if one was accepted or
-- found meanwhile.
CREATE FUNCTION audit_accept(of_chain integer, seqs bigint[], hashes bytea[], signed_note text, entry jsonb)
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

-- As in migration 0029. A host passes the last record that it answered for; the function fails with AS002 if the chain
-- does not contain it. It returns one more row, "head", with the last record of the batch.
DROP FUNCTION ledger_append; -- hosts of the release before call this one, which has three more parameters
CREATE FUNCTION ledger_append(
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
    _payloads    bytea[],
    -- Of each record, the MAC of the override that decided; '' if none did.
    _digests     bytea[] DEFAULT NULL,
    -- The calls with an idempotency key: the place of the call, that of its first record, and the columns.
    _once_of     integer[] DEFAULT NULL,
    _firsts      integer[] DEFAULT NULL,
    _once_keys   bytea[] DEFAULT NULL,
    _requests    bytea[] DEFAULT NULL,
    _answers     bytea[] DEFAULT NULL,
    -- The last record that the host answered for, so that it must be there; its number is 0 if there is none.
    _known       bigint DEFAULT NULL,
    _known_at    timestamptz DEFAULT NULL,
    _known_hash  bytea DEFAULT NULL
) RETURNS TABLE (call integer, outcome text, quota integer, remaining integer, resets_at timestamptz, head_seq bigint,
    head_hash bytea)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _head     audit_heads := audit_lock(_chain, _patience || 'ms');
    _month    date        := date_trunc('month', now() AT TIME ZONE 'UTC');
    _seq      bigint      := _head.seq;
    _hash     bytea       := _head.hash;
    _number   bytea       := int4send(_chain);
    -- Assigning element n of an empty array makes one that begins at n, and unnest would pair it with the wrong rows.
    -- So these have all their elements from the beginning.
    _seqs     bigint[]    := array_fill(NULL::bigint, ARRAY[cardinality(_leaves)]);
    _hashes   bytea[]     := array_fill(NULL::bytea, ARRAY[cardinality(_leaves)]);
    _valid    boolean[];
    _due      text[]; -- keys whose last use is to be stored
    _quotas   integer[]; -- null: unlimited
    _used     integer[];
    _chains   integer[];
    _endpoint boolean[];
    _disabled boolean[];
    _rows     tid[]; -- of the accounts in quota_usage; null: none in this month
    _counted  bigint;
    _fits     boolean;
    _stopped  bigint[] := '{}'; -- revisions that may not be recorded
    _answered integer[]; -- calls whose key has an answer, or is that of an earlier call in the batch
    _first    integer := 1;
    _account  integer;
    _leaf     bytea;
    _place    integer := 0;
    _name     text;
    _last     bigint;
    _names    text[]; -- accounts that get events, and the number of the last event of each
    _lasts    bigint[];
    _kept     boolean := true; -- whether the last record that the host answered for is there
BEGIN
    IF EXISTS (SELECT FROM ledger_settlements AS s WHERE s.chain = _chain AND s.batch = _batch) THEN
        RAISE 'the batch was settled before it arrived' USING ERRCODE = 'AS001';
    END IF;

    IF _known = _head.seq THEN
        _kept := _known = 0 OR _known_hash = _head.hash;
    ELSIF _known > 0 THEN
        _kept := _known < _head.seq AND audit_contains(_chain, _known, _known_at, _known_hash);
    END IF;
    IF NOT _kept THEN
        RAISE 'record % of audit chain % is not the one that was answered', _known, _chain USING ERRCODE = 'AS002';
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

    -- Both limits of the period are given, because only then does the index give the newest version of a row first.
    SELECT array_agg(u.ctid ORDER BY c.n), array_agg(coalesce(u.used, 0) ORDER BY c.n)
    INTO _rows, _used
    FROM unnest(_accounts) WITH ORDINALITY AS c (account, n)
    LEFT JOIN LATERAL (
        SELECT q.ctid, q.used FROM quota_usage AS q
        WHERE q.chain = _chain AND q.account_id = c.account AND q.period >= _month AND q.period <= _month
        ORDER BY q.period DESC LIMIT 1
    ) AS u ON true;
    SELECT array_agg(CASE WHEN a.plan <> 'public' THEN a.quota END ORDER BY c.n),
           array_agg(a.chain ORDER BY c.n),
           array_agg(e.account_id IS NOT NULL ORDER BY c.n),
           array_agg(e.disabled_at IS NOT NULL ORDER BY c.n),
           bool_and(a.chain IS NOT DISTINCT FROM _chain
               AND (a.plan = 'public' OR c.used + c.needed <= a.quota))
    INTO _quotas, _chains, _endpoint, _disabled, _fits
    FROM unnest(_accounts, _needed, _used) WITH ORDINALITY AS c (account, needed, used, n)
    LEFT JOIN accounts AS a ON a.id = c.account
    LEFT JOIN webhook_endpoints AS e ON e.account_id = c.account;

    -- Revisions are compared after waiting for the head, so an activation that was committed meanwhile counts.
    -- Hosts of the release before do not know this outcome, and may take longer to follow.
    IF _digests IS NOT NULL THEN
        _stopped := ARRAY(SELECT r.revision FROM (SELECT DISTINCT unnest(_revisions)) AS r (revision)
            LEFT JOIN revisions_in_force AS f ON f.revision = r.revision
            WHERE f.revision IS NULL OR f.until <= clock_timestamp() - interval '2 seconds');
    END IF;

    -- Whoever records the first call of a key holds the head's lock, so all others find its answer.
    IF cardinality(_once_of) > 0 THEN
        SELECT array_agg(o.call) INTO _answered
        FROM (
            SELECT c.call, c.key, row_number() OVER (PARTITION BY c.key ORDER BY c.call) > 1 AS again
            FROM unnest(_once_of, _once_keys) AS c (call, key)
        ) AS o
        LEFT JOIN LATERAL (
            SELECT a.at FROM answers AS a
            WHERE a.chain = _chain AND a.account_id = _accounts[_owners[_callers[o.call]]] AND a.key = o.key
                AND a.at > now() - interval '24 hours'
            LIMIT 1
        ) AS kept ON true
        WHERE o.again OR kept.at IS NOT NULL;
    END IF;

    -- Usually every call is accepted. Otherwise the records of those that are not lose their leaf.
    IF NOT _fits OR false = ANY (_valid) OR cardinality(_stopped) > 0 OR _answered IS NOT NULL
            OR (true = ANY (_lacking) AND true = ANY (_endpoint)) THEN
        _needed := array_fill(0, ARRAY[cardinality(_accounts)]);
        FOR _call IN 1 .. cardinality(_callers) LOOP
            _account := _owners[_callers[_call]];
            outcome := CASE
                WHEN NOT _valid[_callers[_call]] OR _chains[_account] IS NULL THEN 'unauthorized'
                WHEN _chains[_account] <> _chain THEN 'moved'
                WHEN _call = ANY (_answered) THEN 'answered'
                WHEN _revisions[_first:_first + _sizes[_call] - 1] && _stopped THEN 'revision'
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

    INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, key_id, type, pseudonym, nonce,
        score, verdict, revision, digest, leaf, hash, sealed_node)
    SELECT _chain, r.seq, r.recorded_at, r.at, 'check', r.ref, _accounts[_owners[r.caller]], _keys[r.caller], r.type,
        r.pseudonym, r.nonce, r.score, r.verdict, r.revision, nullif(r.digest, ''), r.leaf, r.hash,
        r.node
    FROM unnest(_seqs, _recorded_at, _at, _refs, _caller_of, _types, _pseudonyms, _nonces, _scores, _verdicts,
        _revisions, _leaves, _hashes, _nodes, _digests)
        AS r (seq, recorded_at, at, ref, caller, type, pseudonym, nonce, score, verdict, revision, leaf, hash, node,
            digest)
    WHERE r.leaf IS NOT NULL;

    INSERT INTO graph_contributions (chain, seq, items, added)
    SELECT _chain, _seq, count(*), string_agg(r.item, ''::bytea ORDER BY r.n)
    FROM unnest(_items, _leaves) WITH ORDINALITY AS r (item, leaf, n)
    WHERE r.leaf IS NOT NULL;

    -- Nobody else counts checks of the chain's accounts meanwhile: the head is locked.
    UPDATE quota_usage AS q SET used = q.used + c.needed
    FROM unnest(_rows, _needed, _quotas) AS c (place, needed, quota)
    WHERE q.chain = _chain AND q.ctid = c.place AND c.needed > 0 AND c.quota IS NOT NULL;
    GET DIAGNOSTICS _counted = ROW_COUNT;
    IF _counted <> (SELECT count(*) FROM unnest(_rows, _needed, _quotas) AS c (place, needed, quota)
            WHERE c.place IS NOT NULL AND c.needed > 0 AND c.quota IS NOT NULL) THEN
        RAISE 'the usage of accounts of audit chain % moved', _chain USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO quota_usage AS q (chain, account_id, period, used)
    SELECT _chain, c.account, _month, c.needed
    FROM unnest(_accounts, _rows, _needed, _quotas) AS c (account, place, needed, quota)
    WHERE c.place IS NULL AND c.needed > 0 AND c.quota IS NOT NULL
    ON CONFLICT (chain, account_id, period) DO UPDATE SET used = q.used + EXCLUDED.used;

    IF cardinality(_due) > 0 THEN
        INSERT INTO key_uses (chain, key_id, used_at)
        SELECT DISTINCT _chain, _keys[r.caller], now()
        FROM unnest(_caller_of, _leaves) AS r (caller, leaf)
        WHERE r.leaf IS NOT NULL AND _keys[r.caller] = ANY (_due)
        ON CONFLICT (chain, key_id) DO UPDATE SET used_at = EXCLUDED.used_at;
    END IF;

    -- An answer that is too old to be given again makes room.
    IF cardinality(_once_of) > 0 THEN
        INSERT INTO answers (chain, account_id, key, request, sealed, subjects, at)
        SELECT _chain, _accounts[_owners[_callers[o.call]]], o.key, o.request, o.sealed,
            _pseudonyms[o.first:o.first + _sizes[o.call] - 1], now()
        FROM unnest(_once_of, _firsts, _once_keys, _requests, _answers) AS o (call, first, key, request, sealed)
        WHERE _leaves[o.first] IS NOT NULL
        ON CONFLICT (chain, account_id, key) DO UPDATE
        SET request = EXCLUDED.request, sealed = EXCLUDED.sealed, subjects = EXCLUDED.subjects, at = EXCLUDED.at;
    END IF;

    -- The events of an account are numbered in the order of the chain. The head's lock makes the numbers visible in
    -- order, so a reader that has seen number n will never find a lower one later. Events of a disabled endpoint fail
    -- without an attempt. They are kept as long as other failed events and can be resent.
    --
    -- These are two statements, because Citus would send the result of a common table expression to all machines, and
    -- commit in two phases.
    IF cardinality(_event_of) > 0 THEN
        FOR _name, _last IN
            INSERT INTO webhook_sequences AS s (chain, account_id, last)
            SELECT _chain, _accounts[_owners[_caller_of[e.record]]], count(*)
            FROM unnest(_event_of) AS e (record)
            WHERE _leaves[e.record] IS NOT NULL AND _endpoint[_owners[_caller_of[e.record]]]
            GROUP BY 2
            ON CONFLICT (chain, account_id) DO UPDATE SET last = s.last + EXCLUDED.last
            RETURNING s.account_id, s.last
        LOOP
            _names := _names || _name;
            _lasts := _lasts || _last;
        END LOOP;
        INSERT INTO webhook_events (chain, ref, account_id, event, type, score, occurred_at, sealed_payload, sequence,
            state, next_attempt_at, settled_at)
        SELECT _chain, _refs[n.record], n.account_id, n.event, _types[n.record], _scores[n.record],
            _recorded_at[n.record], n.payload,
            s.last + 1 - row_number() OVER (PARTITION BY n.account_id ORDER BY n.record DESC),
            CASE WHEN n.disabled THEN 'failed' ELSE 'pending' END,
            CASE WHEN NOT n.disabled THEN now() END,
            CASE WHEN n.disabled THEN now() END
        FROM (
            SELECT e.record, e.event, e.payload, _accounts[_owners[_caller_of[e.record]]] AS account_id,
                _disabled[_owners[_caller_of[e.record]]] AS disabled
            FROM unnest(_event_of, _events, _payloads) AS e (record, event, payload)
            WHERE _leaves[e.record] IS NOT NULL AND _endpoint[_owners[_caller_of[e.record]]]
        ) AS n
        JOIN unnest(_names, _lasts) AS s (account_id, last) USING (account_id);
    END IF;

    UPDATE audit_heads AS h SET seq = _seq, hash = _hash WHERE h.chain = _chain AND h.seq = _head.seq;
    IF NOT FOUND THEN
        RAISE 'the head of audit chain % moved under its lock', _chain USING ERRCODE = 'data_corrupted';
    END IF;
    IF _known IS NOT NULL THEN
        call := -1;
        outcome := 'head';
        head_seq := _seq;
        head_hash := _hash;
        RETURN NEXT;
    END IF;
END $$;

DO $migration$
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        ALTER FUNCTION ledger_append RESET plan_cache_mode;
    END IF;
END $migration$;
