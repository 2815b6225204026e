-- What waits for the reputation graph, as far as ?limit batches of the ledger.
SELECT count(*) AS batches, coalesce(sum(items), 0) AS checks,
    greatest(coalesce(extract(epoch FROM now() - min(added_at)), 0), 0)::float8 AS oldest
FROM (SELECT c.items, c.added_at FROM graph_progress AS p
    JOIN graph_contributions AS c ON c.chain = p.chain AND c.seq > p.applied LIMIT ?limit) AS w
