-- Hosts claim the due events of one chain at a time. The index is built while hosts write. If the migration is
-- interrupted, it begins again.

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    IF EXISTS (SELECT FROM pg_index WHERE NOT indisvalid AND indexrelid = to_regclass('webhook_events_new_due')) THEN
        DROP INDEX webhook_events_new_due;
    END IF;
END $$;

--bun:split
-- Building an index waits for transactions that began before, and nobody waits for it.
SET lock_timeout = 0;

--bun:split
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_events_new_due
    ON webhook_events (chain, account_id, next_attempt_at, ref) WHERE state = 'pending';

--bun:split
SELECT set_config('lock_timeout', '500ms', true);
DROP INDEX webhook_events_due;
ALTER INDEX webhook_events_new_due RENAME TO webhook_events_due;

-- The times after a given one. Citus accepts functions where an INSERT may have no subquery.
CREATE OR REPLACE FUNCTION times_after(times timestamptz[], earliest timestamptz) RETURNS timestamptz[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT t FROM unnest(times) AS t WHERE t > earliest)
$$;
