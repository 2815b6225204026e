-- What all hosts accepted of each key and network lately, for the limits of requests a minute. Each host adds to it and
-- reads it about once a second. A name is a keyed hash. The table stays on the coordinator of a cluster, like hosts.
CREATE TABLE rate_uses (
    name    text PRIMARY KEY,
    used    bigint NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX rate_uses_by_age ON rate_uses (used_at); -- pruned by it
