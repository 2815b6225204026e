-- Delivery: a lease on an event during an attempt, its number in the account's sequence, and a log of attempts.
ALTER TABLE webhook_events
    -- Numbers an account's events from 1 without gaps, in commit order.
    ADD COLUMN sequence     bigint,
    ADD COLUMN type         text NOT NULL DEFAULT '',
    ADD COLUMN score        integer NOT NULL DEFAULT 0,
    ADD COLUMN occurred_at  timestamptz,                -- the event's timestamp
    -- Completed attempts since the event was last scheduled or resent. The column attempts counts all that were
    -- started.
    ADD COLUMN tries        integer NOT NULL DEFAULT 0,
    -- While a host is sending the event: when another host may take over. next_attempt_at has the same value.
    ADD COLUMN leased_until timestamptz,
    ADD COLUMN settled_at   timestamptz;                -- when it was delivered or failed

UPDATE webhook_events AS e SET sequence = n.sequence, occurred_at = e.created_at
    FROM (SELECT ref, row_number() OVER (PARTITION BY account_id ORDER BY created_at, ref) AS sequence FROM webhook_events) AS n
    WHERE n.ref = e.ref;
UPDATE webhook_events AS e SET type = a.type, score = a.score, occurred_at = a.recorded_at FROM audit_records AS a WHERE a.ref = e.ref;

ALTER TABLE webhook_events
    ALTER COLUMN sequence SET NOT NULL,
    ALTER COLUMN occurred_at SET NOT NULL,
    ADD CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    ADD CHECK ((state = 'pending') = (settled_at IS NULL)),
    ADD CHECK (state <> 'delivered' OR sealed_payload IS NULL),
    ADD CHECK (state <> 'pending' OR sealed_payload IS NOT NULL);

DROP INDEX webhook_events_due, webhook_events_by_account;
CREATE INDEX webhook_events_due ON webhook_events (account_id, next_attempt_at, ref) WHERE state = 'pending';
CREATE UNIQUE INDEX webhook_events_by_sequence ON webhook_events (account_id, sequence);
CREATE INDEX webhook_events_by_age ON webhook_events (settled_at);

-- The last number of each account's sequence. It outlives the endpoint, so that a receiver's position stays valid.
CREATE TABLE webhook_sequences (
    account_id text PRIMARY KEY REFERENCES accounts,
    last       bigint NOT NULL
);
INSERT INTO webhook_sequences SELECT account_id, max(sequence) FROM webhook_events GROUP BY account_id;

CREATE TABLE webhook_attempts (
    ref           text NOT NULL REFERENCES webhook_events ON DELETE CASCADE,
    number        integer NOT NULL,
    started_at    timestamptz NOT NULL,
    took_ms       integer,                   -- null: the host stopped during the attempt
    status        integer NOT NULL DEFAULT 0, -- 0: there was no response
    error         text NOT NULL DEFAULT '',  -- why there was no response
    sealed_answer bytea,                     -- the first KiB of the response, encrypted because it may echo the entity
    PRIMARY KEY (ref, number)
);
CREATE INDEX webhook_attempts_with_answer ON webhook_attempts (started_at) WHERE sealed_answer IS NOT NULL;

-- Replaced secrets that still sign in addition to the current one.
CREATE TABLE webhook_old_secrets (
    account_id    text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    sealed_secret bytea NOT NULL,
    replaced_at   timestamptz NOT NULL,
    ends_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, replaced_at)
);
