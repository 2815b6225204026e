-- Keeps the newer of the stored and the given registration. A failed query does not replace an answer that is not due.
INSERT INTO registrations AS r
	(domain, outcome, created, expires, changed, registrar, status, fetched_at, next_at, failures)
VALUES (?domain, ?outcome, ?created, ?expires, ?changed, ?registrar, ?status, ?fetched_at, ?next_at, ?failures)
ON CONFLICT (domain) DO UPDATE SET
	outcome = EXCLUDED.outcome, created = EXCLUDED.created, expires = EXCLUDED.expires,
	changed = EXCLUDED.changed,
	registrar = EXCLUDED.registrar, status = EXCLUDED.status, fetched_at = EXCLUDED.fetched_at,
	next_at = EXCLUDED.next_at, failures = EXCLUDED.failures
WHERE r.fetched_at <= EXCLUDED.fetched_at
	AND (EXCLUDED.failures = 0 OR r.failures > 0 OR r.next_at <= EXCLUDED.fetched_at)
