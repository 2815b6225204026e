-- The erasures that erased a check.
SELECT r.ref, r.at AS timestamp, e.checks
FROM erasures AS e
JOIN audit_records AS r ON r.chain = e.chain AND r.seq = e.seq
WHERE (e.chain, e.seq) IN (SELECT chain, erasure FROM erased_records WHERE ref = ?tombstone)
ORDER BY e.chain, e.seq
