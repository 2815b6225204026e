-- The tables of audit records of months before a given one. Their names sort chronologically. A host that stops may
-- leave a table that is no longer a partition, but not dropped.
SELECT relname
FROM pg_class
WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'audit_records'::regclass)
    AND relkind = 'r' AND relname ~ '^audit_records_[0-9]{4}_[0-9]{2}$' AND relname < ?before
ORDER BY relname
