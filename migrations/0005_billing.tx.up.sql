-- Checkouts. The browser keeps a token, and only its hash is stored. The token's holder can view the new key once.
CREATE TABLE billing_checkouts (
    id         text PRIMARY KEY,
    session    bytea NOT NULL UNIQUE,
    account_id text REFERENCES accounts, -- null until a new customer has paid
    upgrade    boolean NOT NULL,         -- the account existed before and keeps its keys
    plan       text NOT NULL,
    provider   text NOT NULL,
    state      text NOT NULL CHECK (state IN ('open', 'paid', 'claimed')),
    key_id     text,
    reissues   integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz
);
CREATE INDEX billing_checkouts_by_age ON billing_checkouts (created_at);

-- Subscriptions: the provider's ids, the tier and the status. No card, name or address is stored.
CREATE TABLE billing_subscriptions (
    id         text PRIMARY KEY, -- the provider's id
    account_id text REFERENCES accounts, -- null until its checkout is known, because events arrive in any order
    provider   text NOT NULL,
    customer   text NOT NULL DEFAULT '',
    plan       text NOT NULL DEFAULT '',
    status     text NOT NULL DEFAULT 'incomplete',
    ends_at    timestamptz,
    changed_at timestamptz NOT NULL DEFAULT '-infinity' -- by the provider's clock; older events are ignored
);
CREATE INDEX billing_subscriptions_by_account ON billing_subscriptions (account_id);

-- Applied events, so that each is applied once.
CREATE TABLE billing_events (
    id         text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX billing_events_by_age ON billing_events (applied_at);

-- A rotated key stays valid until expires_at.
ALTER TABLE api_keys ADD COLUMN expires_at timestamptz;
ALTER TABLE api_keys ADD COLUMN last_used_at timestamptz; -- with a resolution of one minute

-- For the dashboard's lists of an account's checks.
CREATE INDEX audit_records_by_account ON audit_records (account_id, recorded_at) WHERE kind = 'check';
