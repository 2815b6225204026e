-- A page of the overrides of the accounts whose latest change has a number above ?since, or of all accounts if it is 0.
SELECT ?columns
FROM overrides
WHERE id > ?after
    AND (?since = 0 OR account_id IN (SELECT account_id FROM override_changes WHERE change > ?since))
ORDER BY id
LIMIT ?limit
