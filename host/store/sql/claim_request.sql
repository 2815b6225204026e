UPDATE subject_requests SET lease_until = now() + ?lease::interval
WHERE chain = ?chain AND id = ?id AND state = 'running' AND lease_until < now()
RETURNING *
