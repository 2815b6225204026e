CREATE OR REPLACE FUNCTION graph_known(
    nodes bytea[], accounts bigint[], public_account bigint, since timestamptz, enough integer
) RETURNS TABLE (i bigint, known boolean, first_seen timestamptz, recent bytea) LANGUAGE plpgsql STABLE AS $$
DECLARE
    one bytea;
    owner bigint;
    customers integer;
BEGIN
    FOR one, owner, i IN SELECT * FROM unnest(nodes, accounts) WITH ORDINALITY LOOP
        customers := (SELECT count(*) FROM (
            SELECT 1 FROM graph_sightings AS g
            WHERE g.node = one AND g.account <> public_account AND g.last_seen > since LIMIT enough
        ) AS s);
        CONTINUE WHEN customers = 0;
        known := customers >= enough;
        first_seen := NULL;
        recent := NULL;
        IF owner <> 0 THEN
            SELECT g.first_seen, g.recent INTO first_seen, recent
            FROM graph_sightings AS g WHERE g.node = one AND g.account = owner AND g.last_seen > since;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$
