-- Chains that records claim to belong to, but that neither this host nor audit_heads knows.
SELECT DISTINCT chain
FROM audit_records
WHERE (chain < 0 OR chain >= ?chains)
    AND chain NOT IN (SELECT chain FROM audit_heads)
ORDER BY chain
