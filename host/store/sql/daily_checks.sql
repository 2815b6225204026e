-- Checks of one account since a day, by day (UTC) and verdict.
SELECT date_trunc('day', recorded_at AT TIME ZONE 'UTC') AS date, verdict, count(*) AS n
FROM audit_records
WHERE account_id = ?account AND kind = 'check' AND recorded_at >= ?first
GROUP BY 1, 2
