-- Customers' feedback on their checks. A row is erased with its subject and pruned with its audit record, whose place
-- in the chain it shares.
CREATE TABLE feedback (
    chain       integer NOT NULL,
    seq         bigint NOT NULL,
    ref         text NOT NULL,
    account_id  text NOT NULL,
    pseudonym   bytea NOT NULL,
    type        text NOT NULL,
    label       text NOT NULL CHECK (label IN ('fraud', 'legitimate')),
    sealed_note bytea,                 -- free text, which can name persons
    layers      jsonb,                 -- the layers' scores and signals; null if the value was not sent
    given_at    timestamptz NOT NULL,
    PRIMARY KEY (chain, seq)
);
CREATE INDEX feedback_by_subject ON feedback (account_id, pseudonym);

-- The account's vote on the entity, in place of the share of its checks that were blocked.
ALTER TABLE graph_sightings ADD COLUMN label text CHECK (label IN ('fraud', 'legitimate'));
