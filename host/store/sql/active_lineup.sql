-- The revision in force: the one that was activated last.
SELECT r.revision, r.document, r.text, r.digest, r.origin, r.created_at, a.activated_at, a.note,
    coalesce(a.signed, '') AS signed
FROM lineup_activations AS a
JOIN lineup_revisions AS r ON r.revision = a.revision
ORDER BY a.id DESC
LIMIT 1
