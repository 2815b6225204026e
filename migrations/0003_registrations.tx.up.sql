-- What registries said about domains, by RDAP: asked in the background and kept, so that no check waits for one. The domain is
-- a keyed hash: which domains were checked stands nowhere in the clear.
CREATE TABLE registrations (
    domain     bytea PRIMARY KEY,
    outcome    text NOT NULL CHECK (outcome IN ('registered', 'absent', 'unserved', 'failed')),
    created    timestamptz, -- null: the registry does not tell
    expires    timestamptz,
    registrar  text NOT NULL,
    status     text NOT NULL,
    fetched_at timestamptz NOT NULL,
    next_at    timestamptz NOT NULL, -- when to ask again; a domain that no check brings up is not asked about
    failures   integer NOT NULL
);
CREATE INDEX registrations_by_age ON registrations (fetched_at);
