SELECT r.ref, r.at AS timestamp, e.checks
FROM erasures AS e
JOIN audit_records AS r ON r.chain = e.chain AND r.seq = e.seq
WHERE e.chain = ?chain AND e.subject = ?tombstone
ORDER BY e.seq
