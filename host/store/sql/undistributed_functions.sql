-- The functions, and which of them each worker has in the same version: undistribute_table silently drops those that
-- use a table's row type from the workers. delegated tells whether a call runs where the given tables' rows are.
WITH workers AS MATERIALIZED (
    SELECT CASE WHEN success THEN result::jsonb ELSE '[]' END AS functions
    FROM run_command_on_workers(format('SELECT coalesce(jsonb_agg(proname || '' '' || pronargs || '' '' || md5(prosrc)),
        ''[]'') FROM pg_proc WHERE pronamespace = to_regnamespace(%L)', current_schema())))
SELECT f.proname::text, f.oid::regprocedure::text,
    d.objid IS NOT NULL AND NOT EXISTS (SELECT FROM workers AS w
        WHERE NOT w.functions @> to_jsonb(f.proname || ' ' || f.pronargs || ' ' || md5(f.prosrc))) AS everywhere,
    d.distribution_argument_index IS NOT NULL AND d.colocationid IS NOT DISTINCT FROM (SELECT max(p.colocationid)
        FROM pg_dist_partition AS p JOIN unnest($1::text[]) AS t (name) ON p.logicalrelid = to_regclass(t.name)) AS delegated
FROM pg_proc AS f LEFT JOIN pg_dist_object AS d ON d.classid = 'pg_proc'::regclass AND d.objid = f.oid
WHERE f.pronamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT FROM pg_depend AS e
    WHERE e.objid = f.oid AND e.classid = 'pg_proc'::regclass AND e.deptype = 'e')
ORDER BY f.proname
