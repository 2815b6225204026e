-- How customers open the dashboard. Codes, links and the tokens of sessions are stored as SHA-256 hashes only.

-- The sign-in code of each account. An account without one gets it when it first signs in with an API key.
CREATE TABLE sign_in_codes (
    account_id text PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE,
    issued_at  timestamptz NOT NULL,
    used_at    timestamptz -- null until somebody who knows the code has signed in
);

-- Links that work once. A link with an address confirms that it is the owner's; others sign in.
CREATE TABLE sign_in_links (
    hash           bytea PRIMARY KEY,
    account_id     text NOT NULL,
    sealed_address bytea,
    expires_at     timestamptz NOT NULL
);

-- The e-mail addresses of accounts' owners, encrypted. One address may belong to several accounts.
CREATE TABLE owner_addresses (
    account_id     text PRIMARY KEY,
    match          bytea NOT NULL, -- keyed hash of the address
    sealed_address bytea NOT NULL,
    confirmed_at   timestamptz NOT NULL
);
CREATE INDEX owner_addresses_by_match ON owner_addresses (match);

CREATE TABLE sessions (
    id         text PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE, -- of the token in the browser's cookie
    account_id text NOT NULL,
    began_at   timestamptz NOT NULL,
    used_at    timestamptz NOT NULL, -- to the minute
    expires_at timestamptz NOT NULL,
    browser    text NOT NULL,
    network    text NOT NULL -- the address of the last use, shortened
);
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at); -- pruned by it
