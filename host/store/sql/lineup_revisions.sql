-- All revisions with their most recent activations, newest revision first.
SELECT r.revision, r.document, r.text, r.digest, r.origin, r.created_at, a.activated_at, coalesce(a.note, '') AS note,
    coalesce(a.signed, '') AS signed
FROM lineup_revisions AS r
LEFT JOIN lineup_activations AS a
    ON a.id = (SELECT max(id) FROM lineup_activations WHERE revision = r.revision)
ORDER BY r.revision DESC
