-- A request that no host works on, on any chain: that of the account whose requests hosts left alone for longest.
SELECT chain, id FROM (
    SELECT chain, id, state, lease_until, max(coalesce(settled_at, lease_until)) OVER (PARTITION BY chain, account_id)
        AS worked
    FROM subject_requests WHERE state = 'running' OR settled_at > now() - interval '1 hour'
) AS r
WHERE state = 'running' AND lease_until < now()
ORDER BY worked, lease_until
LIMIT 1
