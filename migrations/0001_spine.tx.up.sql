-- Accounts and API keys. Only the SHA-256 of a key is stored, and a hint for display.
CREATE TABLE accounts (
    id         text PRIMARY KEY,
    plan       text NOT NULL CHECK (plan IN ('free', 'starter', 'pro', 'public')),
    -- Checks per calendar month; 0 for the public account. Copied from the plan, so that it can be raised per account.
    quota      integer NOT NULL CHECK (quota >= 0),
    salt       bytea NOT NULL,             -- of this account's pseudonyms
    chain      integer NOT NULL DEFAULT 0, -- the audit chain that records its checks
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    id         text PRIMARY KEY,
    account_id text NOT NULL REFERENCES accounts,
    name       text NOT NULL,
    hash       bytea NOT NULL UNIQUE,
    hint       text NOT NULL,
    state      text NOT NULL DEFAULT 'valid' CHECK (state IN ('valid', 'revoked', 'cancelled')),
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    CHECK ((state = 'valid') = (ended_at IS NULL))
);
CREATE INDEX api_keys_by_account ON api_keys (account_id);

-- Checks counted against the monthly quota. Written only under the lock of the account's audit head.
CREATE TABLE quota_usage (
    account_id text NOT NULL REFERENCES accounts,
    period     date NOT NULL, -- the first day of the month, UTC
    used       integer NOT NULL CHECK (used >= 0),
    PRIMARY KEY (account_id, period)
);

-- Recent uses of the no-key endpoint by each client. The client's address is stored as a keyed hash.
CREATE TABLE public_uses (
    client    bytea PRIMARY KEY,
    uses      timestamptz[] NOT NULL,
    last_used timestamptz NOT NULL
);
CREATE INDEX public_uses_by_age ON public_uses (last_used);

-- The heads of the audit chains. Every transaction that appends to a chain locks its head.
CREATE TABLE audit_heads (
    chain integer PRIMARY KEY,
    seq   bigint NOT NULL,
    hash  bytea NOT NULL
);

-- Partitioned by month, so that a month past its retention can be dropped. There are no foreign keys, because a record
-- outlives its account and key, and no sequence, because numbers come from the head and have no gaps.
CREATE TABLE audit_records (
    chain       integer NOT NULL,
    seq         bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    at          text NOT NULL, -- recorded_at as the client received it and as it is hashed
    kind        text NOT NULL,
    ref         text NOT NULL,
    account_id  text NOT NULL DEFAULT '',
    key_id      text NOT NULL DEFAULT '',
    type        text NOT NULL DEFAULT '',
    pseudonym   bytea, -- null once erased
    nonce       bytea, -- null once erased
    score       integer NOT NULL DEFAULT 0,
    verdict     text NOT NULL DEFAULT '',
    revision    bigint NOT NULL DEFAULT 0,
    digest      bytea,
    leaf        bytea NOT NULL,
    hash        bytea NOT NULL,
    PRIMARY KEY (chain, seq, recorded_at)
) PARTITION BY RANGE (recorded_at);
CREATE UNIQUE INDEX audit_records_by_ref ON audit_records (ref, recorded_at);

-- Takes records of months without a partition. They are moved when the partition is created.
CREATE TABLE audit_records_other PARTITION OF audit_records DEFAULT;

-- The reputation graph: how often each account saw each node. A node is a keyed hash. Contributions are stored per
-- account, so that each can be capped, decayed and deleted.
CREATE TABLE graph_sightings (
    node       bytea NOT NULL,
    account_id text NOT NULL,
    kind       text NOT NULL, -- domain, email, phone, iban, registrable, maildomain, range, bank
    checks     integer NOT NULL,
    blocked    integer NOT NULL,
    reviewed   integer NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen  timestamptz NOT NULL,
    PRIMARY KEY (node, account_id)
);

-- Two nodes seen together: one is the other's parent, or both were in one request. low < high.
CREATE TABLE graph_links (
    low        bytea NOT NULL,
    high       bytea NOT NULL,
    account_id text NOT NULL,
    checks     integer NOT NULL,
    last_seen  timestamptz NOT NULL,
    PRIMARY KEY (low, high, account_id),
    CHECK (low < high)
);
CREATE INDEX graph_links_by_high ON graph_links (high);

-- Webhooks. The payload contains the raw entity, so it is encrypted with a key that is not in the database.
CREATE TABLE webhook_endpoints (
    account_id    text PRIMARY KEY REFERENCES accounts,
    url           text NOT NULL,
    sealed_secret bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE webhook_events (
    ref             text PRIMARY KEY,
    account_id      text NOT NULL REFERENCES accounts,
    event           text NOT NULL CHECK (event IN ('check.blocked', 'check.review')),
    sealed_payload  bytea, -- the body to send, byte for byte; null once delivered
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz DEFAULT now(),
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_events_due ON webhook_events (next_attempt_at) WHERE state = 'pending';
CREATE INDEX webhook_events_by_account ON webhook_events (account_id, created_at);

-- Plugins and lineups. Rows are never changed.
CREATE TABLE plugin_modules (
    digest     bytea PRIMARY KEY,
    wasm       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE plugin_modules ALTER COLUMN wasm SET STORAGE EXTERNAL; -- uncompressed, because every host reads it at start

CREATE TABLE plugin_versions (
    name         text NOT NULL,
    version      text NOT NULL,
    digest       bytea NOT NULL REFERENCES plugin_modules,
    manifest     jsonb NOT NULL,
    first_party  boolean NOT NULL DEFAULT false,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);

CREATE TABLE lineup_revisions (
    revision   bigint PRIMARY KEY CHECK (revision > 0),
    document   jsonb NOT NULL,
    digest     bytea NOT NULL, -- of the encoded document, as recorded in the audit chain
    origin     text NOT NULL CHECK (origin IN ('built-in', 'operator')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Activations of revisions. The last one is in force.
CREATE TABLE lineup_activations (
    id           bigint PRIMARY KEY,
    revision     bigint NOT NULL REFERENCES lineup_revisions,
    note         text NOT NULL DEFAULT '',
    activated_at timestamptz NOT NULL DEFAULT now()
);

-- Values on which all hosts of a database must agree.
CREATE TABLE installation (
    only_row           boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret_fingerprint bytea NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now()
);
