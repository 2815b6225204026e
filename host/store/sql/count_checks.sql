-- How many checks an account made, by day or hour (UTC, in the given format), key, type and verdict.
SELECT to_char(recorded_at AT TIME ZONE 'UTC', ?format) AS date, key_id AS key, type, verdict, count(*) AS checks
FROM audit_records
WHERE chain = ?chain AND account_id = ?account AND kind = 'check' AND recorded_at >= ?from AND recorded_at < ?until
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
