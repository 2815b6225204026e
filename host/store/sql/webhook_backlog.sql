-- The queue of webhook events, as far as ?limit of them, and the endpoints that fail.
SELECT count(*) AS pending, count(*) FILTER (WHERE next_attempt_at <= now()) AS due,
    count(*) FILTER (WHERE attempts > 0) AS retried,
    greatest(coalesce(extract(epoch FROM now() - min(next_attempt_at)), 0), 0)::float8 AS late
FROM (SELECT next_attempt_at, attempts FROM webhook_events WHERE state = 'pending' LIMIT ?limit) AS e
