-- Hosts claim the due events of one chain at a time.
DROP INDEX webhook_events_due;
CREATE INDEX webhook_events_due ON webhook_events (chain, account_id, next_attempt_at, ref) WHERE state = 'pending';

-- The times after a given one. Citus accepts functions where an INSERT may have no subquery.
CREATE FUNCTION times_after(times timestamptz[], earliest timestamptz) RETURNS timestamptz[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT t FROM unnest(times) AS t WHERE t > earliest)
$$;
