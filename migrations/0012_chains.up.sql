-- Every row that the ledger writes names its chain, so that chains can be written by themselves and kept on different
-- machines. Hosts of the last release still write meanwhile: they know one chain only, number 0.
--
-- Indexes of tables that may be large are built while hosts write, which takes a statement of its own for each. If the
-- migration is interrupted, it begins again: an index that is not complete is dropped.

SELECT set_config('lock_timeout', '500ms', true);

-- The newest version of a head is found first in the index, however many old ones an open snapshot keeps.
ALTER TABLE audit_heads DROP CONSTRAINT audit_heads_pkey, ADD PRIMARY KEY (chain, seq);

ALTER TABLE quota_usage ADD COLUMN IF NOT EXISTS chain integer NOT NULL DEFAULT 0;
ALTER TABLE webhook_sequences ADD COLUMN IF NOT EXISTS chain integer NOT NULL DEFAULT 0;
ALTER TABLE webhook_attempts ADD COLUMN IF NOT EXISTS chain integer NOT NULL DEFAULT 0;
ALTER TABLE webhook_events ADD COLUMN IF NOT EXISTS chain integer NOT NULL DEFAULT 0;

-- The last use of each key, with a resolution of one minute.
CREATE TABLE IF NOT EXISTS key_uses (
    chain   integer NOT NULL, -- of the key's account
    key_id  text NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (chain, key_id)
);

-- Batches whose host lost touch with the database and asked for their outcome. A batch that is not recorded by then
-- never will be.
CREATE TABLE IF NOT EXISTS ledger_settlements (
    chain      integer NOT NULL,
    batch      bytea NOT NULL,   -- random, chosen by the host
    recorded   boolean NOT NULL, -- the outcome
    settled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, batch)
);

-- What recorded checks add to the reputation graph, until a host has applied it.
CREATE TABLE IF NOT EXISTS graph_contributions (
    chain integer NOT NULL,
    seq   bigint NOT NULL,   -- of the batch's last record
    items integer NOT NULL,  -- one for each record, the last one of record seq
    added bytea NOT NULL,    -- the items, each encrypted and preceded by its length as a 32-bit integer
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, seq)
);
ALTER TABLE graph_contributions ALTER COLUMN added SET STORAGE EXTERNAL; -- encrypted bytes do not compress

DO $$
DECLARE
    broken regclass;
BEGIN
    FOR broken IN SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid AND indrelid = ANY
            ('{quota_usage,webhook_sequences,webhook_attempts,webhook_events}'::regclass[]) LOOP
        EXECUTE format('DROP INDEX %s', broken);
    END LOOP;
END $$;

--bun:split
-- Building an index waits for transactions that began before, and nobody waits for it.
SET lock_timeout = 0;

--bun:split
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS quota_usage_by_chain ON quota_usage (chain, account_id, period);

--bun:split
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS webhook_sequences_by_chain ON webhook_sequences (chain, account_id);

--bun:split
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS webhook_attempts_by_chain ON webhook_attempts (chain, ref, number);

--bun:split
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_events_by_ref ON webhook_events (ref);

--bun:split
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS webhook_events_new_pkey ON webhook_events (chain, ref);

--bun:split
SELECT set_config('lock_timeout', '500ms', true);
ALTER TABLE webhook_attempts
    DROP CONSTRAINT IF EXISTS webhook_attempts_ref_fkey, DROP CONSTRAINT IF EXISTS webhook_attempts_chain_ref_fkey;
ALTER TABLE webhook_events
    DROP CONSTRAINT webhook_events_pkey,
    ADD CONSTRAINT webhook_events_pkey PRIMARY KEY USING INDEX webhook_events_new_pkey;
ALTER TABLE webhook_attempts ADD CONSTRAINT webhook_attempts_chain_ref_fkey
    FOREIGN KEY (chain, ref) REFERENCES webhook_events ON DELETE CASCADE NOT VALID;

--bun:split
ALTER TABLE webhook_attempts VALIDATE CONSTRAINT webhook_attempts_chain_ref_fkey;
