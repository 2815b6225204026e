-- The backlog of the reputation graph, counted up to ?most batches of the ledger. Times are in nanoseconds.
SELECT coalesce(sum(items), 0) AS checks, count(*) > ?most AS clipped,
    (greatest(coalesce(extract(epoch FROM now() - min(added_at)), 0), 0) * 1e9)::bigint AS oldest
FROM (SELECT c.items, c.added_at FROM graph_progress AS p
    JOIN graph_contributions AS c ON c.chain = p.chain AND c.seq > p.applied LIMIT ?most + 1) AS w
