-- A request on any chain that no host works on, of the account whose requests were worked on least recently.
SELECT chain, id FROM (
    SELECT chain, id, state, lease_until, max(coalesce(settled_at, lease_until)) OVER (PARTITION BY chain, account_id)
        AS worked
    FROM subject_requests WHERE state = 'running' OR settled_at > now() - interval '1 hour'
) AS r
WHERE state = 'running' AND lease_until < now()
ORDER BY worked, lease_until
LIMIT 1
