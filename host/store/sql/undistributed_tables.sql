-- The tables that are not distributed yet, with their size and the other tables that they refer to. Tables of the
-- migrator stay where migrations run. Citus adds tables that refer to its own to its metadata with partmethod "n" and
-- repmodel "s"; reference tables have repmodel "t". The tables in $1 stay on the coordinator, in that metadata.
SELECT t.relname::text,
    (SELECT coalesce(sum(pg_relation_size(p.relid)), pg_relation_size(t.oid))::bigint FROM pg_partition_tree(t.oid) AS p),
    ARRAY(SELECT r.relname::text FROM pg_constraint AS f JOIN pg_class AS r ON r.oid = f.confrelid
        WHERE f.conrelid = t.oid AND f.contype = 'f' AND f.confrelid <> t.oid)
FROM pg_class AS t
WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition
    AND t.relname NOT LIKE 'schema\_%'
    AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.objid = t.oid AND e.classid = 'pg_class'::regclass AND e.deptype = 'e')
    AND NOT EXISTS (SELECT FROM pg_dist_partition AS d
        WHERE d.logicalrelid = t.oid AND (d.partmethod = 'h' OR d.repmodel = 't' OR t.relname = ANY ($1)))
ORDER BY t.relname
