-- The queue of webhook events, counted up to ?most events. Times are in nanoseconds.
SELECT least(count(*), ?most) AS pending, count(*) > ?most AS clipped,
    least(count(*) FILTER (WHERE next_attempt_at <= now()), ?most) AS due,
    least(count(*) FILTER (WHERE attempts > 0), ?most) AS retried,
    (greatest(coalesce(extract(epoch FROM now() - min(next_attempt_at)), 0), 0) * 1e9)::bigint AS late
FROM (SELECT next_attempt_at, attempts FROM webhook_events WHERE state = 'pending' LIMIT ?most + 1) AS e
