-- The head of each chain, and its last record. LATERAL with LIMIT makes Postgres look up each record by its key,
-- whatever its estimates of the tables' sizes.
SELECT h.chain, h.seq, h.hash, r.recorded_at, r.hash = h.hash AS same FROM audit_heads AS h
LEFT JOIN LATERAL (
    SELECT recorded_at, hash FROM audit_records WHERE chain = h.chain AND seq = h.seq
    UNION ALL SELECT recorded_at, hash FROM state_records WHERE chain = h.chain AND seq = h.seq
    LIMIT 1) AS r ON true
ORDER BY h.chain, h.seq
