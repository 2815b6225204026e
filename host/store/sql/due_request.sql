-- A request that no host works on, on any chain.
SELECT chain, id FROM subject_requests
WHERE state = 'running' AND lease_until < now()
ORDER BY created_at
LIMIT 1
