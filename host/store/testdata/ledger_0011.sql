-- The transaction by which hosts up to migration 0011 recorded a check with a webhook event, as captured from one.
-- name: lock
SELECT seq, hash FROM audit_heads WHERE chain IN (SELECT chain FROM accounts WHERE id IN (?account))
ORDER BY chain FOR UPDATE
-- name: caller
SELECT a.id AS account_id, k.id AS key_id, k.state, k.expires_at, k.last_used_at AS used_at, a.quota,
	a.salt, a.chain,
	EXISTS (SELECT FROM webhook_endpoints AS e WHERE e.account_id = a.id) AS endpoint
FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id WHERE k.id IN (?key)
UNION ALL
SELECT a.id, '', '', NULL, NULL, a.quota, a.salt, a.chain, false FROM accounts AS a WHERE a.id IN (NULL)
-- name: used
SELECT q.account_id, q.period, q.used FROM quota_usage AS q WHERE account_id IN (?account) AND period >= ?month
-- name: write
INSERT INTO quota_usage AS q (account_id, period, used) VALUES (?account, ?month, 1)
ON CONFLICT (account_id, period) DO UPDATE SET used = q.used + EXCLUDED.used;
INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, key_id, type, pseudonym, nonce, score,
	verdict, revision, digest, leaf, hash, sealed_node)
VALUES (0, ?seq, ?when, ?at, 'check', ?ref, ?account, ?key, 'domain', ?pseudonym, ?nonce, 91, 'block', 3, NULL, ?leaf,
	?hash, ?node);
WITH new (ref, account_id, event, type, score, occurred_at, sealed_payload, later) AS (VALUES (?ref::VARCHAR,
	?account::VARCHAR, 'check.blocked'::VARCHAR, 'domain'::VARCHAR, 91::BIGINT, ?when::TIMESTAMPTZ, '\x32'::BYTEA,
	0::BIGINT)),
numbered AS (
	INSERT INTO webhook_sequences AS s (account_id, last)
	SELECT account_id, count(*) FROM new GROUP BY account_id ORDER BY account_id
	ON CONFLICT (account_id) DO UPDATE SET last = s.last + EXCLUDED.last
	RETURNING account_id, last)
INSERT INTO webhook_events (ref, account_id, event, type, score, occurred_at, sealed_payload, sequence, state,
	next_attempt_at, settled_at)
SELECT ref, account_id, event, type, score, occurred_at, sealed_payload, last - later,
	CASE WHEN undeliverable THEN 'failed' ELSE 'pending' END,
	CASE WHEN NOT undeliverable THEN now() END,
	CASE WHEN undeliverable THEN now() END
FROM new JOIN numbered USING (account_id) CROSS JOIN LATERAL (
	SELECT NOT starts_with(new.ref, 'test_') AND EXISTS (
		SELECT FROM webhook_endpoints AS w WHERE w.account_id = new.account_id AND w.disabled_at IS NOT NULL)
) AS disabled (undeliverable);
INSERT INTO graph_sightings AS g (node, account_id, kind, checks, blocked, reviewed, first_seen, last_seen)
VALUES (?pseudonym, ?account, 'domain', 1, 1, 0, ?when, ?when)
ON CONFLICT (node, account_id) DO UPDATE SET checks = g.checks + EXCLUDED.checks,
	blocked = g.blocked + EXCLUDED.blocked, reviewed = g.reviewed + EXCLUDED.reviewed,
	last_seen = greatest(g.last_seen, EXCLUDED.last_seen);
UPDATE api_keys AS key SET last_used_at = ?when WHERE (id IN (?key));
UPDATE audit_heads AS head_row SET seq = ?seq, hash = ?hash WHERE chain = 0 AND seq = ?seq - 1
