-- Indexes of partitioned tables that are not attached to an index of each partition.
SELECT i.indexrelid::regclass::text AS index, part.oid::regclass::text AS partition, built.name,
    substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*') AS definition,
    EXISTS (SELECT FROM pg_index AS own WHERE own.indexrelid = to_regclass(built.name) AND own.indisvalid) AS built
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid AND c.relkind = 'I' AND c.relnamespace = current_schema()::regnamespace
JOIN pg_class AS t ON t.oid = i.indrelid
JOIN pg_inherits AS p ON p.inhparent = t.oid
JOIN pg_class AS part ON part.oid = p.inhrelid
CROSS JOIN replace(c.relname, t.relname, part.relname) AS built (name)
WHERE NOT i.indisvalid AND NOT EXISTS (
    SELECT FROM pg_inherits AS a JOIN pg_index AS own ON own.indexrelid = a.inhrelid
    WHERE a.inhparent = i.indexrelid AND own.indrelid = part.oid)
ORDER BY 1, 2
