-- The audit partitions of months before a given one. Partition names sort chronologically.
SELECT c.relname
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'audit_records'::regclass AND c.relname < ?before
ORDER BY c.relname
