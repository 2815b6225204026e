-- Attempts to subscribe. The browser keeps a token whose hash stands here: who holds it may see the key once.
CREATE TABLE billing_checkouts (
    id         text PRIMARY KEY,
    session    bytea NOT NULL UNIQUE,
    account_id text REFERENCES accounts, -- null until a new customer has paid
    upgrade    boolean NOT NULL,         -- the account was there before: its keys stay
    plan       text NOT NULL,
    provider   text NOT NULL,
    state      text NOT NULL CHECK (state IN ('open', 'paid', 'claimed')),
    key_id     text,
    reissues   integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz
);
CREATE INDEX billing_checkouts_by_age ON billing_checkouts (created_at);

-- What is known of each subscription: the provider's ids, the tier, the status. No card, no name, no address.
CREATE TABLE billing_subscriptions (
    id         text PRIMARY KEY, -- the provider's
    account_id text REFERENCES accounts, -- null until its checkout is known: events come in any order
    provider   text NOT NULL,
    customer   text NOT NULL DEFAULT '',
    plan       text NOT NULL DEFAULT '',
    status     text NOT NULL DEFAULT 'incomplete',
    ends_at    timestamptz,
    changed_at timestamptz NOT NULL DEFAULT '-infinity' -- by the provider's clock: older events change nothing
);
CREATE INDEX billing_subscriptions_by_account ON billing_subscriptions (account_id);

-- Events that were applied, so that each is applied once.
CREATE TABLE billing_events (
    id         text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX billing_events_by_age ON billing_events (applied_at);

-- A key that was rotated works on until expires_at.
ALTER TABLE api_keys ADD COLUMN expires_at timestamptz;
ALTER TABLE api_keys ADD COLUMN last_used_at timestamptz; -- to the minute

-- The dashboard's lists of an account's own checks.
CREATE INDEX audit_records_by_account ON audit_records (account_id, recorded_at) WHERE kind = 'check';
