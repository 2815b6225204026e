-- Creates a list or replaces its metadata, and returns its ID.
INSERT INTO feeds AS f (name, kind, category, source, format, licence, entries, version, imported_at, expires_at,
	fresh_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9, $10)
ON CONFLICT (name) DO UPDATE SET
	kind = EXCLUDED.kind, category = EXCLUDED.category, source = EXCLUDED.source, format = EXCLUDED.format,
	licence = EXCLUDED.licence, entries = EXCLUDED.entries, version = f.version + 1,
	imported_at = EXCLUDED.imported_at, expires_at = EXCLUDED.expires_at, fresh_until = EXCLUDED.fresh_until
RETURNING id
