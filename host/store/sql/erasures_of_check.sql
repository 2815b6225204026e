-- The erasures that erased a check.
SELECT r.ref, to_char(r.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS timestamp, e.checks
FROM erasures AS e
JOIN audit_records AS r ON r.chain = e.chain AND r.seq = e.seq
WHERE e.chain = ?chain AND e.seq IN (SELECT erasure FROM erased_records WHERE chain = ?chain AND ref = ?tombstone)
ORDER BY e.seq
