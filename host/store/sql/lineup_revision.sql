-- One revision with its most recent activation; 0: the one that was activated last.
SELECT r.revision, r.text, r.digest, r.origin, r.created_at, a.activated_at, coalesce(a.reason, '') AS reason,
    coalesce(a.signed, '') AS signed
FROM lineup_revisions AS r
LEFT JOIN lineup_activations AS a
    ON a.id = (SELECT max(id) FROM lineup_activations WHERE revision = r.revision)
WHERE r.revision = coalesce(nullif(?revision, 0), (SELECT revision FROM lineup_activations ORDER BY id DESC LIMIT 1))
