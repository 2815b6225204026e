-- What receivers got and answered, encrypted, for 72 hours. The index, by which it is pruned, is built while hosts
-- write. If the migration is interrupted, it begins again.

DO $$
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    ALTER TABLE webhook_attempts ADD COLUMN IF NOT EXISTS sealed_exchange bytea;
    IF EXISTS (SELECT FROM pg_index
            WHERE NOT indisvalid AND indexrelid = to_regclass('webhook_attempts_with_exchange')) THEN
        DROP INDEX webhook_attempts_with_exchange;
    END IF;
END $$;

--bun:split
-- Building an index waits for transactions that began before, and nobody waits for it.
SET lock_timeout = 0;

--bun:split
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_attempts_with_exchange
    ON webhook_attempts (started_at) WHERE sealed_exchange IS NOT NULL;
