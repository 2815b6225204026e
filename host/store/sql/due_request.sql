-- A request that no host works on, on any chain: that of the account whose requests hosts left alone for longest.
SELECT chain, id FROM (
    SELECT chain, id, lease_until, max(lease_until) OVER (PARTITION BY chain, account_id) AS worked
    FROM subject_requests WHERE state = 'running'
) AS r
WHERE lease_until < now()
ORDER BY worked, lease_until
LIMIT 1
