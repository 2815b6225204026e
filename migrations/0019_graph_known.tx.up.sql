-- Which of many nodes are known is one statement, which keeps its plan. Without the setting, Postgres plans it anew in
-- every call that names fewer than ten nodes, because fewer look cheaper, and planning takes longer than running it.
--
-- Citus can do neither, so a database with the extension keeps the loop over the nodes. A database that gets the
-- extension later gets the loop back from assay database distribute (host/store/sql/citus_graph_known.sql).
DO $migration$
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        RETURN;
    END IF;

    CREATE OR REPLACE FUNCTION graph_known(
        nodes bytea[], accounts text[], public_account text, since timestamptz, enough integer
    ) RETURNS TABLE (i bigint, known boolean, first_seen timestamptz, recent bytea)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
    BEGIN
        RETURN QUERY
            SELECT n.i, seen.customers >= enough, own.first_seen, own.recent
            FROM unnest(nodes, accounts) WITH ORDINALITY AS n (node, account, i)
            CROSS JOIN LATERAL (
                SELECT count(*) AS customers FROM (
                    SELECT FROM graph_sightings AS g
                    WHERE g.node = n.node AND g.account_id <> public_account AND g.last_seen > since LIMIT enough
                ) AS s
            ) AS seen
            LEFT JOIN LATERAL (
                SELECT g.first_seen, g.recent FROM graph_sightings AS g
                WHERE n.account <> '' AND g.node = n.node AND g.account_id = n.account AND g.last_seen > since LIMIT 1
            ) AS own ON true
            WHERE seen.customers > 0;
    END $$;
END $migration$;
