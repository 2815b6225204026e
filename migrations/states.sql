-- The content of each row that the audit log binds. Only this file defines it: hosts make two texts of it
-- (host/store/functions.go). Verification reads all rows, and uses only functions of Postgres, because the database's
-- own could have been altered. Function record_state reads the row of of_id, with the conditions in comments here.
--
-- The record also has id, account, state, amount and number, see docs/audit-format.md, and the SHA-256 of content.
SELECT 'account' AS type, a.id, a.id AS account,
    CASE WHEN a.suspended_at IS NULL THEN a.plan ELSE 'suspended' END AS state, a.quota AS amount, 0::bigint AS number,
    convert_to(jsonb_build_array('account', a.id, a.plan, a.quota, encode(a.salt, 'hex'), a.chain,
        extract(epoch FROM a.created_at)::text, extract(epoch FROM a.suspended_at)::text, a.standing)::text, 'UTF8')
    AS content
FROM accounts AS a /* WHERE a.id = of_id */
UNION ALL
SELECT 'key', k.id, k.account_id, k.state, 0,
    coalesce((extract(epoch FROM least(k.ended_at, k.expires_at)) * 1000)::bigint, 0),
    convert_to(jsonb_build_array('key', k.id, k.account_id, k.name, encode(k.hash, 'hex'), k.hint, k.state,
        extract(epoch FROM k.created_at)::text, extract(epoch FROM k.ended_at)::text,
        extract(epoch FROM k.expires_at)::text, k.scopes, k.networks, extract(epoch FROM k.lifetime)::text,
        k.test)::text, 'UTF8')
FROM api_keys AS k /* WHERE k.id = of_id */
UNION ALL
SELECT 'list', f.name, '', f.kind, f.version, 0,
    convert_to(jsonb_build_array('list', f.id, f.name, f.kind, f.category, f.source, f.format, f.licence, f.entries,
        f.version, extract(epoch FROM f.imported_at)::text, extract(epoch FROM f.expires_at)::text,
        extract(epoch FROM f.fresh_until)::text)::text, 'UTF8')
FROM feeds AS f /* WHERE f.name = of_id */
UNION ALL
SELECT 'list content', f.name, '', f.kind, f.version, 0, coalesce(e.hashes, '') || coalesce(r.hashes, '')
FROM feeds AS f
LEFT JOIN (
    SELECT feed_id, string_agg(sha256(convert_to(jsonb_build_array(encode(node, 'hex'), type, value, name, page,
        category, extract(epoch FROM first_seen)::text)::text, 'UTF8')), '' ORDER BY node) AS hashes
    FROM feed_entries /* WHERE feed_id = (SELECT id FROM feeds WHERE name = of_id) */ GROUP BY feed_id
) AS e ON e.feed_id = f.id
LEFT JOIN (
    SELECT feed_id, string_agg(sha256(prefix || ranks), '' ORDER BY prefix) AS hashes
    FROM feed_ranks /* WHERE feed_id = (SELECT id FROM feeds WHERE name = of_id) */ GROUP BY feed_id
) AS r ON r.feed_id = f.id /* WHERE f.name = of_id */
UNION ALL
SELECT 'lineup', coalesce(r.revision, f.revision)::text, '', coalesce(r.origin, ''), 0, 0,
    convert_to(jsonb_build_array('lineup', r.revision, r.text, encode(r.digest, 'hex'), r.origin,
        extract(epoch FROM r.created_at)::text, f.revision IS NOT NULL, extract(epoch FROM f.until)::text)::text, 'UTF8')
FROM lineup_revisions AS r FULL JOIN revisions_in_force AS f ON f.revision = r.revision
    /* WHERE coalesce(r.revision, f.revision)::text = of_id */
UNION ALL
SELECT 'activation', a.id::text, '', '', 0, 0,
    convert_to(jsonb_build_array('activation', a.id, a.revision, a.reason, extract(epoch FROM a.activated_at)::text,
        a.number, a.signed, encode(a.hash, 'hex'), a.canary_revision, a.share)::text, 'UTF8')
FROM lineup_activations AS a /* WHERE a.id::text = of_id */
UNION ALL
SELECT 'plugin', p.name || '@' || p.version, '', '', 0, 0,
    convert_to(jsonb_build_array('plugin', p.name, p.version, encode(p.digest, 'hex'), p.manifest, p.first_party,
        extract(epoch FROM p.published_at)::text)::text, 'UTF8')
FROM plugin_versions AS p /* WHERE p.name || '@' || p.version = of_id */
UNION ALL
SELECT 'name', n.name, '', '', 0, 0,
    convert_to(jsonb_build_array('name', n.name, n.owner, n.transfer)::text, 'UTF8')
FROM plugin_names AS n /* WHERE n.name = of_id */
UNION ALL
SELECT 'module', encode(coalesce(m.digest, n.digest), 'hex'), '', '', 0, 0,
    convert_to(jsonb_build_array('module', encode(m.digest, 'hex'), encode(sha256(m.wasm), 'hex'),
        extract(epoch FROM m.created_at)::text, n.notes)::text, 'UTF8')
FROM plugin_modules AS m
FULL JOIN (SELECT digest, jsonb_object_agg(kind, note) AS notes FROM plugin_notes GROUP BY digest) AS n
    ON n.digest = m.digest /* WHERE encode(coalesce(m.digest, n.digest), 'hex') = of_id */
UNION ALL
SELECT 'override', o.id, o.account_id, o.action, 0, (extract(epoch FROM o.expires_at) * 1000)::bigint,
    convert_to(jsonb_build_array('override', o.id, o.account_id, o.action, o.kind, encode(o.match, 'hex'),
        encode(o.subject, 'hex'), o.masked, encode(o.sealed_reason, 'hex'), o.author,
        extract(epoch FROM o.created_at)::text, extract(epoch FROM o.expires_at)::text, encode(o.mac, 'hex'))::text,
        'UTF8')
FROM overrides AS o /* WHERE o.id = of_id */
