-- The overrides of the accounts whose latest change has a number above ?since, or of all accounts if it is 0.
SELECT o.*
FROM overrides AS o
WHERE ?since = 0 OR o.account_id IN (SELECT account_id FROM override_changes WHERE change > ?since)
ORDER BY o.id
