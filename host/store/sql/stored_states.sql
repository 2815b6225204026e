-- The stored accounts and keys with the digests that record_account and record_key of the migrations would record. Only
-- functions of Postgres are used, because those of the database could have been altered.
SELECT 'account' AS type, a.id, sha256(convert_to(jsonb_build_array('account', a.id, a.plan, a.quota,
	encode(a.salt, 'hex'), a.chain, extract(epoch FROM a.created_at)::text)::text, 'UTF8')) AS digest
FROM accounts AS a
UNION ALL
SELECT 'key', k.id, sha256(convert_to(jsonb_build_array('key', k.id, k.account_id, k.name, encode(k.hash, 'hex'),
	k.hint, k.state, extract(epoch FROM k.created_at)::text, extract(epoch FROM k.ended_at)::text,
	extract(epoch FROM k.expires_at)::text, l.scopes, l.networks, extract(epoch FROM l.lifetime)::text,
	l.test)::text, 'UTF8'))
FROM api_keys AS k LEFT JOIN key_limits AS l ON l.key_id = k.id
