-- The next contributions of a chain that are not applied: as many batches of the ledger as have ?checks checks, at
-- least one.
SELECT seq, items, added, extract(epoch FROM clock_timestamp() - added_at)::float8 AS age
FROM (
    SELECT *, sum(items) OVER (ORDER BY seq) AS total
    FROM (SELECT * FROM graph_contributions WHERE chain = ?chain AND seq > ?applied ORDER BY seq LIMIT ?batches) AS c
) AS c
WHERE total - items < ?checks
ORDER BY seq
