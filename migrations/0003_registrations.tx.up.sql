-- Registration data of domains, looked up by RDAP in the background so that no check waits for a registry. The domain
-- is stored as a keyed hash, so that the table does not reveal which domains were checked.
CREATE TABLE registrations (
    domain     bytea PRIMARY KEY,
    outcome    text NOT NULL CHECK (outcome IN ('registered', 'absent', 'unserved', 'failed')),
    created    timestamptz, -- null: the registry does not publish it
    expires    timestamptz,
    registrar  text NOT NULL,
    status     text NOT NULL,
    fetched_at timestamptz NOT NULL,
    next_at    timestamptz NOT NULL, -- when to look it up again, if it is checked again
    failures   integer NOT NULL
);
CREATE INDEX registrations_by_age ON registrations (fetched_at);
