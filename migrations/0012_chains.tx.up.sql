-- Every row that the ledger writes names its chain, so that chains can be written by themselves and kept on different
-- machines. Hosts of the last release still write meanwhile: they know one chain only, number 0.

-- The newest version of a head is found first in the index, however many old ones an open snapshot keeps.
ALTER TABLE audit_heads DROP CONSTRAINT audit_heads_pkey, ADD PRIMARY KEY (chain, seq);

ALTER TABLE quota_usage ADD COLUMN chain integer NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX quota_usage_by_chain ON quota_usage (chain, account_id, period);

ALTER TABLE webhook_sequences ADD COLUMN chain integer NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX webhook_sequences_by_chain ON webhook_sequences (chain, account_id);

ALTER TABLE webhook_attempts ADD COLUMN chain integer NOT NULL DEFAULT 0, DROP CONSTRAINT webhook_attempts_ref_fkey;
CREATE UNIQUE INDEX webhook_attempts_by_chain ON webhook_attempts (chain, ref, number);
ALTER TABLE webhook_events ADD COLUMN chain integer NOT NULL DEFAULT 0;
ALTER TABLE webhook_events DROP CONSTRAINT webhook_events_pkey, ADD PRIMARY KEY (chain, ref);
CREATE INDEX webhook_events_by_ref ON webhook_events (ref);
ALTER TABLE webhook_attempts ADD FOREIGN KEY (chain, ref) REFERENCES webhook_events ON DELETE CASCADE;

-- The last use of each key, with a resolution of one minute.
CREATE TABLE key_uses (
    chain   integer NOT NULL, -- of the key's account
    key_id  text NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (chain, key_id)
);

-- Batches whose host lost touch with the database and asked for their outcome. A batch that is not recorded by then
-- never will be.
CREATE TABLE ledger_settlements (
    chain      integer NOT NULL,
    batch      bytea NOT NULL,   -- random, chosen by the host
    recorded   boolean NOT NULL, -- the outcome
    settled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, batch)
);

-- What recorded checks add to the reputation graph, until a host has applied it.
CREATE TABLE graph_contributions (
    chain integer NOT NULL,
    seq   bigint NOT NULL,   -- of the batch's last record
    items integer NOT NULL,  -- one for each record, the last one of record seq
    added bytea NOT NULL,    -- the items, each encrypted and preceded by its length as a 32-bit integer
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, seq)
);
ALTER TABLE graph_contributions ALTER COLUMN added SET STORAGE EXTERNAL; -- encrypted bytes do not compress
