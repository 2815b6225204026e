-- The stored accounts, keys and lists with the digests that record_account, record_key and record_list of the
-- migrations would record. Only functions of Postgres are used, because those of the database could have been altered.
SELECT 'account' AS type, a.id, sha256(convert_to(jsonb_build_array('account', a.id, a.plan, a.quota,
	encode(a.salt, 'hex'), a.chain, extract(epoch FROM a.created_at)::text)::text, 'UTF8')) AS digest
FROM accounts AS a
UNION ALL
SELECT 'key', k.id, sha256(convert_to(jsonb_build_array('key', k.id, k.account_id, k.name, encode(k.hash, 'hex'),
	k.hint, k.state, extract(epoch FROM k.created_at)::text, extract(epoch FROM k.ended_at)::text,
	extract(epoch FROM k.expires_at)::text, l.scopes, l.networks, extract(epoch FROM l.lifetime)::text,
	l.test)::text, 'UTF8'))
FROM api_keys AS k LEFT JOIN key_limits AS l ON l.key_id = k.id
UNION ALL
SELECT 'list', f.name, sha256(convert_to(jsonb_build_array('list', f.id, f.name, f.kind, f.category, f.source,
	f.format, f.licence, f.entries, f.version, extract(epoch FROM f.imported_at)::text,
	extract(epoch FROM f.expires_at)::text, extract(epoch FROM f.fresh_until)::text)::text, 'UTF8'))
FROM feeds AS f
UNION ALL
SELECT 'list content', f.name, sha256(coalesce(e.hashes, '') || coalesce(r.hashes, ''))
FROM feeds AS f
LEFT JOIN (
	SELECT feed_id, string_agg(sha256(convert_to(jsonb_build_array(encode(node, 'hex'), type, value, name, page,
		category, extract(epoch FROM first_seen)::text)::text, 'UTF8')), '' ORDER BY node) AS hashes
	FROM feed_entries GROUP BY feed_id
) AS e ON e.feed_id = f.id
LEFT JOIN (
	SELECT feed_id, string_agg(sha256(prefix || ranks), '' ORDER BY prefix) AS hashes FROM feed_ranks GROUP BY feed_id
) AS r ON r.feed_id = f.id
