-- Adds the uses that a host accepted and returns the total of all hosts for each name. A total restarts after a minute
-- without uses. The order of the names makes deadlocks between hosts impossible.
WITH told AS (
    SELECT name, used FROM unnest(?names::text[], ?used::bigint[]) AS t (name, used)
), added AS (
    INSERT INTO rate_uses AS r (name, used)
    SELECT name, used FROM told WHERE used > 0 ORDER BY name
    ON CONFLICT (name) DO UPDATE SET used_at = EXCLUDED.used_at,
        used = EXCLUDED.used + CASE WHEN EXCLUDED.used_at - r.used_at < interval '1 minute' THEN r.used ELSE 0 END
    RETURNING name, used
)
SELECT name, used FROM added
UNION ALL
SELECT name, r.used FROM rate_uses AS r JOIN told USING (name) WHERE told.used = 0
