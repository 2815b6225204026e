-- The tables. For every column, docs/privacy.md describes the personal data in it and how long it is kept.
-- docs/audit-format.md lists the columns that the audit log binds.

-- Values on which all hosts of a database must agree.
CREATE TABLE installation (
    only_row           boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret_fingerprint bytea NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now()
);

-- The versions of functions.sql that were applied. The last one is in force.
CREATE TABLE schema_functions (
    number     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest     bytea NOT NULL UNIQUE, -- SHA-256 of the file
    names      text[] NOT NULL,       -- of its functions, so that later versions drop no others
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Accounts and keys -------------------------------------------------------------------------------------------------

-- Accounts and API keys. Only the SHA-256 of a key is stored, and a hint for display.
CREATE TABLE accounts (
    id         text PRIMARY KEY,
    plan       text NOT NULL CHECK (plan IN ('free', 'starter', 'pro', 'public')),
    -- Checks per calendar month; 0 for the public account. Copied from the plan, so that it can be raised per account.
    quota      integer NOT NULL CHECK (quota >= 0),
    salt       bytea NOT NULL,             -- of this account's pseudonyms
    chain      integer NOT NULL DEFAULT 0, -- the audit chain that records its checks
    created_at timestamptz NOT NULL DEFAULT now(),
    suspended_at timestamptz, -- by the operator: no key works
    standing     text         -- why the operator last suspended or resumed it
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
    expires_at timestamptz, -- a rotated key stays valid until then
    -- The limits of the key, which never change.
    scopes     text[] CHECK (cardinality(scopes) > 0),   -- null: all
    networks   text[] CHECK (cardinality(networks) > 0), -- in CIDR notation; null: any address
    lifetime   interval, -- also of a key that replaces this one; null: it works until it is revoked
    test       boolean NOT NULL DEFAULT false,
    CHECK ((state = 'valid') = (ended_at IS NULL))
);
CREATE INDEX api_keys_by_account ON api_keys (account_id);

-- The last use of each key, with a resolution of one minute.
CREATE TABLE key_uses (
    chain   integer NOT NULL, -- of the key's account
    key_id  text NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (chain, key_id)
);

-- Checks counted against the monthly quota. Written only under the lock of the account's audit head.
CREATE TABLE quota_usage (
    chain      integer NOT NULL DEFAULT 0,
    account_id text NOT NULL REFERENCES accounts,
    period     date NOT NULL, -- the first day of the month, UTC
    used       integer NOT NULL CHECK (used >= 0),
    quota      integer, -- of a larger plan that was paid for in this month; null: the account's quota counts
    PRIMARY KEY (chain, account_id, period)
);

-- The uses of each key and network that all hosts accepted lately, for the limits per minute. Each host adds to it and
-- reads it about once a second. Names are keyed hashes. The table stays on a cluster's coordinator, like hosts.
CREATE TABLE rate_uses (
    name    text PRIMARY KEY,
    used    bigint NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now()
);

-- Recent uses by each client of the no-key endpoint and other actions. The client's address is stored as a keyed hash.
CREATE TABLE public_uses (
    client     bytea PRIMARY KEY,
    uses       timestamptz[] NOT NULL,
    expires_at timestamptz NOT NULL -- when the last use leaves the action's window
);
CREATE INDEX public_uses_by_age ON public_uses (expires_at);

-- Signing in --------------------------------------------------------------------------------------------------------
--
-- How customers open the dashboard. Codes, links and the tokens of sessions are stored as SHA-256 hashes only.

-- The sign-in code of each account. An account without one gets it when it first signs in with an API key.
CREATE TABLE sign_in_codes (
    account_id text PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE,
    issued_at  timestamptz NOT NULL,
    used_at    timestamptz -- null until somebody who knows the code has signed in
);

-- Links that work once. A link with an address confirms the owner's address, or makes it the recovery address. Others
-- sign in.
CREATE TABLE sign_in_links (
    hash           bytea PRIMARY KEY,
    account_id     text NOT NULL,
    sealed_address bytea,
    recovers       boolean NOT NULL,
    expires_at     timestamptz NOT NULL
);

-- The e-mail addresses of accounts' owners, encrypted: the one that the owner gave, and the recovery address, which the
-- payment provider knows. One address may belong to several accounts.
CREATE TABLE owner_addresses (
    account_id     text NOT NULL,
    recovery       boolean NOT NULL,
    match          bytea NOT NULL, -- keyed hash of the address
    sealed_address bytea NOT NULL,
    confirmed_at   timestamptz NOT NULL,
    usable_at      timestamptz NOT NULL, -- it can sign in from then on; before, the owner can refuse a recovery address
    PRIMARY KEY (account_id, recovery)
);
CREATE INDEX owner_addresses_by_match ON owner_addresses (match);

CREATE TABLE sessions (
    id         text PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE, -- of the token in the browser's cookie
    account_id text NOT NULL,
    began_at   timestamptz NOT NULL,
    used_at    timestamptz NOT NULL, -- to the minute
    proved_at  timestamptz NOT NULL, -- when a code or link was last presented
    expires_at timestamptz NOT NULL,
    browser    text NOT NULL,
    network    text NOT NULL -- the address of the last use, shortened
);
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at); -- pruned by it

-- The audit log -----------------------------------------------------------------------------------------------------

-- The heads of the audit chains. Every transaction that appends to a chain locks its head. The key finds the newest
-- version of a head first, however many old ones an open snapshot keeps.
--
-- The states of accounts, keys, lists, lineups, plugins and overrides have their own chains, because their records must
-- stay as long as the rows. Chain 1000000 has those of the installation, and chain 1000001 + n those of the accounts
-- whose checks are in chain n. Their heads are locked after all others.
CREATE TABLE audit_heads (
    chain integer NOT NULL,
    seq   bigint NOT NULL,
    hash  bytea NOT NULL,
    PRIMARY KEY (chain, seq)
);

-- Partitioned by month, so that a month past its retention can be dropped. There are no foreign keys, because a record
-- outlives its account and key, and no sequence, because numbers come from the head and have no gaps.
--
-- An erased record keeps its position, leaf and hash, so that the chain still verifies, and recorded_at, which selects
-- its partition. All other columns are null or empty (GDPR Art. 17).
CREATE TABLE audit_records (
    chain       integer NOT NULL,
    seq         bigint NOT NULL,
    recorded_at timestamptz NOT NULL, -- selects the partition; hashed as the text that the client received
    kind        text NOT NULL,
    ref         text,
    account_id  text NOT NULL DEFAULT '',
    key_id      text NOT NULL DEFAULT '',
    type        text NOT NULL DEFAULT '',
    pseudonym   bytea, -- null once erased
    nonce       bytea, -- null once erased
    score       integer NOT NULL DEFAULT 0,
    verdict     text NOT NULL DEFAULT '',
    revision    bigint NOT NULL DEFAULT 0,
    digest      bytea,
    leaf        bytea NOT NULL, -- the hash of the content; verifying an erasure needs it, because the content is gone
    hash        bytea NOT NULL, -- of the previous hash and the leaf; pruning can end at any record, and needs its hash
    -- The subject's node in the reputation graph, encrypted so that the database alone cannot join the two. Not hashed.
    sealed_node bytea,
    PRIMARY KEY (chain, seq, recorded_at)
) PARTITION BY RANGE (recorded_at);

-- Customers, support and ledger_settle look up checks by reference, and no check is recorded twice.
CREATE UNIQUE INDEX audit_records_by_ref ON audit_records (ref, recorded_at);

-- The dashboard's lists and daily counts.
CREATE INDEX audit_records_by_account ON audit_records (account_id, recorded_at) WHERE kind = 'check';

-- The records of a data subject. Pseudonyms are random, so an index on them alone grows in random places: with ten
-- million records, nearly every insertion changes another page, and after a checkpoint Postgres logs the whole page.
-- Here, insertions stay within the last 65,536 records of each chain, and a search looks in each such span.
CREATE INDEX audit_records_by_subject ON audit_records ((seq >> 16), substr(pseudonym, 1, 8));

-- Takes records of months without a partition. They are moved when the partition is created.
CREATE TABLE audit_records_other PARTITION OF audit_records DEFAULT;

-- The records of the chains of states. They are never pruned, so they are not in the months' partitions, which could
-- then never be dropped.
CREATE TABLE state_records (LIKE audit_records INCLUDING DEFAULTS, PRIMARY KEY (chain, seq));

-- Batches whose host lost its connection to the database and asked for their outcome. A batch that is not recorded by
-- then never will be.
CREATE TABLE ledger_settlements (
    chain      integer NOT NULL,
    batch      bytea NOT NULL,   -- random, chosen by the host
    recorded   boolean NOT NULL, -- the outcome
    settled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, batch)
);
CREATE INDEX ledger_settlements_by_age ON ledger_settlements (settled_at); -- pruned by it

-- Points at which audit chains were cut after records' retention (contract section 8). Anchors are kept permanently:
-- the rest of a chain is verified from its newest anchor. A later record of kind "pruning" has the anchor's number and
-- hash.
CREATE TABLE audit_anchors (
    chain integer NOT NULL,
    seq   bigint NOT NULL, -- of the last pruned record
    note  text NOT NULL,   -- the signed anchor, see audit.OpenAnchor
    PRIMARY KEY (chain, seq)
);

-- The Merkle tree (RFC 6962) of each audit chain, built in the background from the leaves of its records, and its
-- signed checkpoints. docs/audit-format.md describes both.
CREATE TABLE audit_trees (
    chain     integer PRIMARY KEY,
    first_seq bigint NOT NULL, -- number of the record that is leaf 0
    size      bigint NOT NULL DEFAULT 0,
    root      bytea NOT NULL,
    grown_at  timestamptz NOT NULL DEFAULT '-infinity',
    after     bigint NOT NULL DEFAULT 0 -- number of the last record that accepts a loss; 0: none
);

-- 1 to 256 hashes of 32 bytes. A tile with 256 never changes, a shorter one only grows.
CREATE TABLE audit_tiles (
    chain  integer NOT NULL,
    level  integer NOT NULL,
    place  bigint NOT NULL, -- in its level, from 0
    hashes bytea NOT NULL,
    PRIMARY KEY (chain, level, place)
);
ALTER TABLE audit_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL; -- hashes cannot be compressed

CREATE TABLE audit_checkpoints (
    chain        integer NOT NULL,
    size         bigint NOT NULL,
    note         text NOT NULL,
    signed_at    timestamptz NOT NULL DEFAULT now(),
    cosignatures text NOT NULL DEFAULT '', -- signature lines of witnesses (C2SP tlog-cosignature), added to the note
    PRIMARY KEY (chain, size)
);
-- Finds the newest cosigned checkpoint of a chain if the newest ones wait for their witnesses.
CREATE INDEX audit_checkpoints_cosigned ON audit_checkpoints (chain, size) WHERE cosignatures <> '';

-- The signed statements that introduce the keys of the audit log after the first (docs/audit-format.md).
CREATE TABLE audit_keys (
    number integer PRIMARY KEY CHECK (number >= 2),
    note   text NOT NULL
);

-- Records that hosts answered for and the database no longer contains, because a failover lost commits or an older dump
-- was restored. A row without "accepted" keeps hosts from answering until an operator accepts the loss.
CREATE TABLE audit_losses (
    chain       integer NOT NULL,
    seq         bigint NOT NULL,      -- of the last record that the host answered for
    hash        bytea NOT NULL,
    answered_at timestamptz NOT NULL, -- when that record was recorded
    survived    bigint NOT NULL,      -- the last record that is known to be there; 0: unknown
    refs        text[] NOT NULL,      -- of lost records, as far as the host remembers them
    host        text NOT NULL,
    found_at    timestamptz NOT NULL DEFAULT now(),
    accepted    bigint,               -- number of the record that accepts the loss
    PRIMARY KEY (chain, seq, hash)
);

-- Signed acceptances of losses, by the number of their record. The Merkle tree continues under a new origin.
CREATE TABLE audit_acceptances (
    chain integer NOT NULL,
    seq   bigint NOT NULL,
    note  text NOT NULL,
    PRIMARY KEY (chain, seq)
);

-- The answers to checks that were sent with an idempotency key: a request that is sent again gets the same answer. An
-- answer is encrypted under a key derived from the request, which is not stored, and is kept for 24 hours.
CREATE TABLE answers (
    chain      integer NOT NULL,
    account_id text NOT NULL,
    key_hash   bytea NOT NULL,   -- keyed hash of the idempotency key
    request    bytea NOT NULL,   -- keyed hash of path and body
    sealed     bytea NOT NULL,
    subjects   bytea[] NOT NULL, -- the pseudonyms of its records: an erasure deletes the answer
    kept_at    timestamptz NOT NULL,
    PRIMARY KEY (chain, account_id, key_hash)
);
CREATE INDEX answers_by_age ON answers (chain, kept_at); -- pruned by it

-- Data subjects -----------------------------------------------------------------------------------------------------
--
-- Export and erasure of a data subject (GDPR Art. 15 and 17), and reviews by a person (Art. 22).

-- The records that each record of kind "erasure" erased. The erasure's digest signs their numbers and leaves, so that a
-- blanked record cannot pass for an erased one.
CREATE TABLE erased_records (
    chain   integer NOT NULL,
    seq     bigint NOT NULL,
    leaf    bytea NOT NULL,
    erasure bigint NOT NULL,       -- the number of the erasure's record
    ref     bytea NOT NULL UNIQUE, -- keyed hash of the erased reference
    PRIMARY KEY (chain, seq)
);
CREATE INDEX erased_records_by_erasure ON erased_records (chain, erasure, seq);

CREATE TABLE erasures (
    chain   integer NOT NULL,
    seq     bigint NOT NULL,   -- of the erasure's record
    subject bytea NOT NULL,    -- keyed hash of the subject's pseudonym
    checks  integer NOT NULL,  -- number of checks erased
    PRIMARY KEY (chain, seq)
);
CREATE INDEX erasures_by_subject ON erasures (subject);

-- Exports and erasures of subjects with many checks. Hosts work on them in the background, in steps.
CREATE TABLE subject_requests (
    chain       integer NOT NULL,
    id          text NOT NULL,
    account_id  text NOT NULL,
    key_id      text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('export', 'erasure')),
    state       text NOT NULL CHECK (state IN ('running', 'done', 'failed', 'deleted')),
    subject     bytea NOT NULL,             -- the subject's tombstone, as in erasures
    sealed      bytea,                      -- the pseudonym and the node, encrypted; null unless running
    total       integer NOT NULL,           -- the subject's checks when the request was made
    done        integer NOT NULL DEFAULT 0, -- checks exported
    since       bigint NOT NULL,            -- seq of the head when the request was made
    at_seq      bigint NOT NULL DEFAULT 0,  -- of the last record exported
    lease_until timestamptz NOT NULL,       -- until then, one host works on it
    created_at  timestamptz NOT NULL,
    settled_at  timestamptz,
    PRIMARY KEY (chain, id),
    CHECK ((sealed IS NOT NULL) = (state = 'running')),
    CHECK ((settled_at IS NULL) = (state = 'running'))
);
CREATE UNIQUE INDEX subject_requests_running ON subject_requests (chain, account_id, kind, subject)
    WHERE state = 'running';

-- The pages of finished exports, encrypted.
CREATE TABLE export_parts (
    chain  integer NOT NULL,
    id     text NOT NULL,
    after  bytea NOT NULL, -- the tombstone of the previous check's reference; empty for the first part
    sealed bytea NOT NULL,
    PRIMARY KEY (chain, id, after)
);

-- Reviews of checks by a person. A row is erased with its subject and pruned with its audit record, whose place in the
-- chain it shares.
CREATE TABLE reviews (
    chain          integer NOT NULL,
    seq            bigint NOT NULL,
    checked_at     timestamptz NOT NULL, -- recorded_at of the record
    ref            text NOT NULL,
    account_id     text NOT NULL,
    state          text NOT NULL CHECK (state IN ('asked', 'taken', 'upheld', 'overturned')),
    sealed_reason  bytea NOT NULL,           -- free text, which can name persons
    asked_at       timestamptz NOT NULL,
    reviewer       text NOT NULL DEFAULT '', -- the person who took it
    taken_at       timestamptz,
    sealed_finding bytea,                    -- the person's reasons
    settled_at     timestamptz,
    told           boolean NOT NULL DEFAULT false, -- the owner was told that it is settled
    PRIMARY KEY (chain, seq),
    CHECK ((settled_at IS NOT NULL) = (state IN ('upheld', 'overturned')))
);
CREATE INDEX reviews_open ON reviews (asked_at) WHERE settled_at IS NULL;
CREATE INDEX reviews_by_ref ON reviews (ref);

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

-- The reputation graph ----------------------------------------------------------------------------------------------
--
-- It is a projection: the ledger stores sealed contributions, and any host applies them a moment later, each exactly
-- once. Every lookup names its node.

-- How often each account saw each node. A node is 16 bytes of a keyed hash, and graph_account gives the account's
-- number. The table grows with every new value, so its rows are narrow: no column is null, and those of 8 bytes come
-- first. Contributions are stored per account, so that each can be capped, decayed and deleted.
CREATE TABLE graph_sightings (
    first_seen timestamptz NOT NULL,
    last_seen  timestamptz NOT NULL,
    account    bigint NOT NULL,
    checks     integer NOT NULL,
    blocked    integer NOT NULL,
    reviewed   integer NOT NULL,
    node       bytea NOT NULL,
    kind       text NOT NULL, -- domain, email, phone, iban, registrable, maildomain, range, bank, nameserver, network
    -- The times of an entity's checks within the last day, newest first: at most 64, each in seconds since 1970 as a
    -- 32-bit integer. Empty for other nodes.
    recent     bytea NOT NULL DEFAULT '',
    -- The account's vote on the entity, in place of the share of its checks that were blocked; '': none.
    label      text NOT NULL DEFAULT '' CHECK (label IN ('', 'fraud', 'legitimate')),
    PRIMARY KEY (node, account)
);

-- Two nodes seen together, once in each direction: one is the other's parent, or both were in one request.
CREATE TABLE graph_edges (
    last_seen timestamptz NOT NULL,
    account   bigint NOT NULL,
    checks    integer NOT NULL,
    node      bytea NOT NULL,
    other     bytea NOT NULL,
    PRIMARY KEY (node, account, other)
);

-- The contributions of recorded checks to the reputation graph, until a host has applied them.
CREATE TABLE graph_contributions (
    chain    integer NOT NULL,
    seq      bigint NOT NULL,   -- of the batch's last record
    items    integer NOT NULL,  -- one for each record, the last one of record seq
    added    bytea NOT NULL,    -- the items, each encrypted and preceded by its length as a 32-bit integer
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, seq)
);
ALTER TABLE graph_contributions ALTER COLUMN added SET STORAGE EXTERNAL; -- encrypted bytes do not compress

-- How far the contributions of each chain are applied: exactly those up to number applied are.
CREATE TABLE graph_progress (
    chain   integer PRIMARY KEY,
    applied bigint NOT NULL DEFAULT 0,
    forgets bigint NOT NULL DEFAULT 0  -- counts the rows added to graph_forgotten
);

-- Data to leave out of contributions that are not applied yet, up to number up_to.
CREATE TABLE graph_forgotten (
    chain   integer NOT NULL,
    account bigint NOT NULL, -- 0: all accounts
    node    bytea NOT NULL,  -- empty: all nodes
    up_to   bigint NOT NULL,
    PRIMARY KEY (chain, account, node)
);

-- Items of contributions that could not be read, kept for finding the cause.
CREATE TABLE graph_unreadable (
    chain    integer NOT NULL,
    seq      bigint NOT NULL, -- of the record
    item     bytea NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, seq)
);

-- Registrations and lists -------------------------------------------------------------------------------------------

-- Registration data of domains, looked up by RDAP in the background so that no check waits for a registry. The domain
-- is stored as a keyed hash, so that the table does not reveal which domains were checked.
CREATE TABLE registrations (
    domain     bytea PRIMARY KEY,
    outcome    text NOT NULL CHECK (outcome IN ('registered', 'absent', 'unserved', 'failed')),
    created    timestamptz, -- null, like expires and changed: the registry does not publish it
    expires    timestamptz,
    changed    timestamptz, -- when the registry last changed the name servers, the registrar or the holder
    registrar  text NOT NULL,
    status     text NOT NULL,
    fetched_at timestamptz NOT NULL,
    next_at    timestamptz NOT NULL, -- when to look it up again, if it is checked again
    failures   integer NOT NULL
);
CREATE INDEX registrations_by_age ON registrations (fetched_at);

-- Lists of known bad and known good entities, imported by operators or fetched from their publishers, and ranked lists.
CREATE TABLE feeds (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    kind        text NOT NULL CHECK (kind IN ('bad', 'good', 'ranked')),
    category    text NOT NULL DEFAULT '', -- a threat category, for entries without their own
    source      text NOT NULL,            -- the file or URL that was imported
    format      text NOT NULL,
    licence     text NOT NULL DEFAULT '',
    entries     integer NOT NULL,
    version     integer NOT NULL,         -- number of imports
    imported_at timestamptz NOT NULL,
    expires_at  timestamptz,              -- the list has no effect from then on; null: never
    fresh_until timestamptz               -- entries are out of date from then on; null: not while the list is in force
);

-- The current entries of the lists. An import replaces all entries of its list. Values are stored in the clear: lists
-- are public, and similarity compares names. The node is the same keyed hash as in the graph, so that entities with a
-- listed parent can be found. There is no foreign key, because entries of a withdrawn list are deleted later.
CREATE TABLE feed_entries (
    feed_id    integer NOT NULL,
    node       bytea NOT NULL,
    type       text NOT NULL CHECK (type IN ('domain', 'email', 'phone', 'iban')),
    value      text NOT NULL,
    name       text NOT NULL,    -- compared by similarity: a domain's registrable label or an address's mailbox
    page       boolean NOT NULL, -- the list has only a page on this host, not the whole host
    category   text NOT NULL,
    first_seen timestamptz NOT NULL,
    PRIMARY KEY (feed_id, node)
);
CREATE INDEX feed_entries_by_node ON feed_entries (node);

-- The names of ranked lists, packed by the first two bytes of their nodes: a row per name would take several times the
-- space. An import replaces all rows of its list. There is no foreign key, as in feed_entries.
CREATE TABLE feed_ranks (
    feed_id integer NOT NULL,
    prefix  bytea NOT NULL, -- bytes 1 and 2 of the nodes
    ranks   bytea NOT NULL, -- for each name, bytes 3 to 10 of its node, then its rank as a 32-bit integer
    PRIMARY KEY (prefix, feed_id)
);

-- Lists that hosts fetch regularly. A list has a row in feeds once it was fetched.
CREATE TABLE feed_subscriptions (
    name             text PRIMARY KEY, -- of the list
    sealed_url       bytea NOT NULL,   -- the URL may contain an access key
    source           text NOT NULL,    -- the URL without user, query and fragment
    kind             text NOT NULL CHECK (kind IN ('bad', 'good', 'ranked')),
    category         text NOT NULL,
    format           text NOT NULL,
    selected_column  text NOT NULL,    -- the column or member with the entities; empty: one with a usual name
    country          text NOT NULL,
    licence          text NOT NULL,
    every            interval NOT NULL,
    fresh_for        interval NOT NULL, -- after the publisher last confirmed the content
    expires_after    interval NOT NULL, -- likewise
    next_fetch_at    timestamptz NOT NULL,
    leased_until     timestamptz,       -- a process is fetching the list until then; null: none
    -- HTTP validators of the content in feeds; empty if there are none.
    etag             text NOT NULL DEFAULT '',
    last_modified    text NOT NULL DEFAULT '',
    confirmed_at     timestamptz,       -- when the content in feeds was last fetched or confirmed
    failing_since    timestamptz,       -- the first failure since then; null: the last fetch did not fail
    failures         integer NOT NULL DEFAULT 0,
    error            text NOT NULL DEFAULT '', -- of the last fetch
    -- The size of the version that is held back, and the size that an operator accepted. Null: none.
    held_entries     integer,
    accepted_entries integer
);

-- Overrides: verdicts that an account, or the operator for all accounts, set in advance for a value or a group of
-- values. A row never changes. Its MAC covers all other columns, and the audit log records when it was added and
-- removed.
CREATE TABLE overrides (
    id            text PRIMARY KEY,
    account_id    text NOT NULL DEFAULT '', -- '': the operator's
    action        text NOT NULL CHECK (action IN ('allow', 'block')),
    kind          text NOT NULL,
    match         bytea NOT NULL, -- keyed hash of account, kind and normalised value
    subject       bytea,          -- the value's pseudonym in the account, for erasures
    masked        text NOT NULL,
    sealed_reason bytea NOT NULL,
    author        text NOT NULL,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    mac           bytea NOT NULL,
    UNIQUE (account_id, match)
);
CREATE INDEX overrides_by_expiry ON overrides (expires_at); -- pruned by it

-- The number of each account's latest change, so that hosts read only the overrides of accounts that changed. Numbers
-- rise in the order of commits.
CREATE TABLE override_changes (
    account_id text PRIMARY KEY,
    change     bigint NOT NULL
);
CREATE INDEX override_changes_by_number ON override_changes (change);

-- Webhooks ----------------------------------------------------------------------------------------------------------
--
-- The payload contains the raw entity, so it is encrypted with a key that is not in the database.

-- An endpoint that fails for days is disabled. Failures are stored at most once a minute, and cleared by the first
-- success.
CREATE TABLE webhook_endpoints (
    account_id      text PRIMARY KEY REFERENCES accounts,
    url             text NOT NULL,
    sealed_secret   bytea NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    failing_since   timestamptz, -- the first failed attempt since the last success; null: the last attempt did not fail
    failed_at       timestamptz, -- a recent failed attempt
    disabled_at     timestamptz, -- only test events are sent from then on; null: enabled
    disabled_reason text CHECK (disabled_reason IN ('failing')),
    notice          text CHECK (notice IN ('disabled', 'recovered')), -- for the owner, until it is sent
    CHECK ((failing_since IS NULL) = (failed_at IS NULL)),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);

-- Replaced secrets that still sign in addition to the current one.
CREATE TABLE webhook_old_secrets (
    account_id    text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    sealed_secret bytea NOT NULL,
    replaced_at   timestamptz NOT NULL,
    ends_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, replaced_at)
);

-- The last number of each account's sequence. It outlives the endpoint, so that a receiver's position stays valid.
CREATE TABLE webhook_sequences (
    chain      integer NOT NULL DEFAULT 0,
    account_id text NOT NULL REFERENCES accounts,
    last       bigint NOT NULL,
    PRIMARY KEY (chain, account_id)
);

CREATE TABLE webhook_events (
    chain           integer NOT NULL DEFAULT 0,
    ref             text NOT NULL,
    account_id      text NOT NULL REFERENCES accounts,
    sequence        bigint NOT NULL, -- numbers an account's events from 1 without gaps, in commit order
    event           text NOT NULL CHECK (event IN ('check.blocked', 'check.review')),
    type            text NOT NULL DEFAULT '',
    score           integer NOT NULL DEFAULT 0,
    occurred_at     timestamptz NOT NULL, -- the event's timestamp
    sealed_payload  bytea,                -- the body to send, byte for byte; null once delivered
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts        integer NOT NULL DEFAULT 0, -- all that were started
    tries           integer NOT NULL DEFAULT 0, -- completed attempts since the event was last scheduled or resent
    next_attempt_at timestamptz DEFAULT now(),
    -- While a host is sending the event: when another host may take over. next_attempt_at has the same value.
    leased_until    timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    settled_at      timestamptz, -- when it was delivered or failed
    PRIMARY KEY (chain, ref),
    CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    CHECK ((state = 'pending') = (settled_at IS NULL)),
    CHECK (state <> 'delivered' OR sealed_payload IS NULL),
    CHECK (state <> 'pending' OR sealed_payload IS NOT NULL)
);
CREATE INDEX webhook_events_by_ref ON webhook_events (ref);
CREATE UNIQUE INDEX webhook_events_by_sequence ON webhook_events (account_id, sequence);
CREATE INDEX webhook_events_by_age ON webhook_events (settled_at); -- pruned by it
CREATE INDEX webhook_events_failed ON webhook_events (created_at) WHERE state = 'failed' AND sealed_payload IS NOT NULL;
CREATE INDEX webhook_events_next ON webhook_events (chain, next_attempt_at) WHERE state = 'pending';
-- Hosts claim the due events of one chain at a time.
CREATE INDEX webhook_events_due ON webhook_events (chain, account_id, next_attempt_at, ref) WHERE state = 'pending';

CREATE TABLE webhook_attempts (
    chain           integer NOT NULL DEFAULT 0,
    ref             text NOT NULL,
    number          integer NOT NULL,
    started_at      timestamptz NOT NULL,
    took_ms         integer,                    -- null: the host stopped during the attempt
    status          integer NOT NULL DEFAULT 0, -- 0: there was no response
    error           text NOT NULL DEFAULT '',   -- why there was no response
    sealed_answer   bytea, -- the first KiB of the response, encrypted because it may echo the entity
    sealed_exchange bytea, -- the request and the response's headers, encrypted, for 72 hours
    PRIMARY KEY (chain, ref, number),
    FOREIGN KEY (chain, ref) REFERENCES webhook_events ON DELETE CASCADE
);
CREATE INDEX webhook_attempts_with_answer ON webhook_attempts (started_at) WHERE sealed_answer IS NOT NULL;
CREATE INDEX webhook_attempts_with_exchange ON webhook_attempts (started_at) WHERE sealed_exchange IS NOT NULL;

-- Billing -----------------------------------------------------------------------------------------------------------

-- Checkouts. The browser keeps a token, and only its hash is stored. The token's holder can view the new key once.
CREATE TABLE billing_checkouts (
    id         text PRIMARY KEY,
    session    bytea NOT NULL UNIQUE,
    account_id text REFERENCES accounts, -- null until a new customer has paid
    upgrade    boolean NOT NULL,         -- the account existed before and keeps its keys
    plan       text NOT NULL,
    provider   text NOT NULL,
    state      text NOT NULL CHECK (state IN ('open', 'paid', 'claimed')),
    page       text NOT NULL DEFAULT '', -- the provider's id of the page that asks for the card
    customer   text NOT NULL DEFAULT '', -- the provider's id of the customer that the page is for
    polled_at  timestamptz,              -- when the provider was last asked whether it was paid
    key_id     text,
    reissues   integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz
);
CREATE INDEX billing_checkouts_by_age ON billing_checkouts (created_at);
CREATE INDEX billing_checkouts_by_customer ON billing_checkouts (customer);
CREATE INDEX billing_checkouts_by_account ON billing_checkouts (account_id);

-- Cards that were declined within a day. A customer who tries too many is stopped.
CREATE TABLE billing_declines (
    id          text PRIMARY KEY, -- the provider's, of the attempt
    customer    text NOT NULL,    -- of a checkout
    card        text NOT NULL,    -- the provider's fingerprint, which does not reveal the number; '': unknown
    declined_at timestamptz NOT NULL
);
CREATE INDEX billing_declines_by_customer ON billing_declines (customer);
CREATE INDEX billing_declines_by_card ON billing_declines (card);

-- Pairs of checkouts that one browser had open for a new customer at the same time. Together they pay for one account.
CREATE TABLE billing_tabs (
    checkout_id text NOT NULL,
    earlier     text NOT NULL, -- a checkout whose key was not shown when this one began
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (checkout_id, earlier)
);
CREATE INDEX billing_tabs_by_earlier ON billing_tabs (earlier);

-- Subscriptions: the provider's ids, the tier and the status. No card, name or address is stored.
CREATE TABLE billing_subscriptions (
    id         text PRIMARY KEY, -- the provider's id
    account_id text REFERENCES accounts, -- null until its checkout is known, because events arrive in any order
    provider   text NOT NULL,
    customer   text NOT NULL DEFAULT '',
    plan       text NOT NULL DEFAULT '',
    next_plan  text NOT NULL DEFAULT '', -- from paid_until on, or from ends_at on; '': none is chosen
    status     text NOT NULL DEFAULT 'incomplete',
    paid_until timestamptz, -- the end of the period that was paid last
    ends_at    timestamptz,
    changed_at timestamptz NOT NULL DEFAULT now() -- when it was last read at the provider
);
CREATE INDEX billing_subscriptions_by_account ON billing_subscriptions (account_id);
CREATE UNIQUE INDEX billing_subscriptions_live ON billing_subscriptions (account_id)
    WHERE status NOT IN ('incomplete', 'canceled');

-- An account has at most one live subscription. A customer who pays for another one, such as from a second tab, gets
-- the money back: hosts cancel and refund these.
CREATE TABLE billing_refunds (
    subscription_id text PRIMARY KEY,       -- in billing_subscriptions, where it has no account
    account_id      text NOT NULL,          -- it had a subscription already
    checkout_id     text,                   -- the payment's; null: another subscription had paid for the checkout
    found_at        timestamptz NOT NULL DEFAULT now(),
    refunded_at     timestamptz             -- null: not yet
);
CREATE INDEX billing_refunds_by_account ON billing_refunds (account_id);

-- Plugins and lineups -----------------------------------------------------------------------------------------------

CREATE TABLE plugin_modules (
    digest     bytea PRIMARY KEY,
    wasm       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE plugin_modules ALTER COLUMN wasm SET STORAGE EXTERNAL; -- uncompressed, because every host reads it at start

-- Rows never change, as in lineup_revisions and lineup_activations.
CREATE TABLE plugin_versions (
    name         text NOT NULL,
    version      text NOT NULL,
    digest       bytea NOT NULL REFERENCES plugin_modules,
    manifest     jsonb NOT NULL,
    first_party  boolean NOT NULL DEFAULT false,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);

-- The owner of each plugin name, who may publish versions: the first publisher, unless an operator transferred it.
CREATE TABLE plugin_names (
    name     text PRIMARY KEY,
    owner    text NOT NULL, -- a public key as trust files list it, or 'release'
    transfer text           -- the operator's signed note, see package release
);

-- Signed notes about published plugins: the signature of a module, and its passport (measurements).
CREATE TABLE plugin_notes (
    digest bytea NOT NULL REFERENCES plugin_modules,
    kind   text NOT NULL CHECK (kind IN ('signature', 'passport')),
    note   text NOT NULL,
    PRIMARY KEY (digest, kind)
);

CREATE TABLE lineup_revisions (
    revision   bigint PRIMARY KEY CHECK (revision > 0),
    text       text NOT NULL,  -- the lineup as it is hashed and signed
    digest     bytea NOT NULL, -- of the text, as recorded in the audit chain
    origin     text NOT NULL CHECK (origin IN ('built-in', 'operator')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Activations of revisions. The last one is in force. All columns but id repeat what the signed note says, for queries;
-- `audit verify` compares them.
CREATE TABLE lineup_activations (
    id              bigint PRIMARY KEY,
    revision        bigint NOT NULL REFERENCES lineup_revisions,
    reason          text NOT NULL DEFAULT '',
    activated_at    timestamptz NOT NULL DEFAULT now(),
    number          bigint NOT NULL UNIQUE,
    signed          text NOT NULL,  -- a signed note, see package activation
    hash            bytea NOT NULL, -- of the note's text
    canary_revision bigint REFERENCES lineup_revisions,
    share           integer
);

-- The revisions that checks may be recorded under. until is when a revision stopped being in force.
CREATE TABLE revisions_in_force (
    revision bigint PRIMARY KEY,
    until    timestamptz
);

-- Hosts -------------------------------------------------------------------------------------------------------------

-- The hosts that share this database. A host writes its row every two seconds and deletes it when it stops. A host that
-- was not seen for ten seconds is silent, and nobody waits for it.
CREATE TABLE hosts (
    id         text PRIMARY KEY, -- of a process
    name       text NOT NULL,    -- for operators: machine and port
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now(),
    activation bigint NOT NULL DEFAULT 0, -- number of the activation that the host runs; 0: none
    revision   bigint NOT NULL DEFAULT 0, -- of its lineup
    refused    bigint NOT NULL DEFAULT 0, -- number of the activation that the host cannot run; 0: none
    problem    text NOT NULL DEFAULT '',  -- why
    canary     text NOT NULL DEFAULT '',  -- the canary's effect on this host's checks, in words
    shadow     jsonb                      -- what its lineups' shadow layers would have changed; null: there are none
);

-- When each job that runs once for all hosts is due. A host that takes a job moves its time on.
CREATE TABLE jobs (
    name   text PRIMARY KEY,
    due_at timestamptz NOT NULL
);

-- Lineups that an operator wants hosts to prepare, or only to measure. The command that made a candidate extends it
-- while it runs and deletes it at its end.
CREATE TABLE candidates (
    id       text PRIMARY KEY,
    signed   text, -- an activation to prepare or a lineup to measure, signed (package activation); never put in force
    document text, -- a lineup to measure that has only layers in force, canonical
    made_at  timestamptz NOT NULL DEFAULT now(),
    expires  timestamptz NOT NULL,
    CHECK (num_nonnulls(signed, document) = 1)
);

CREATE TABLE candidate_hosts (
    candidate text NOT NULL REFERENCES candidates ON DELETE CASCADE,
    host      text NOT NULL,
    state     text NOT NULL CHECK (state IN ('loading', 'ready', 'refused')),
    reason    text NOT NULL DEFAULT '',
    report    jsonb, -- what the candidate would have changed on this host
    PRIMARY KEY (candidate, host)
);

-- Storage -----------------------------------------------------------------------------------------------------------
--
-- Rows that change often leave room on their page for the next version, so that no index changes. Tables that keep few
-- rows, and tables that only grow and become large, are vacuumed by their changes instead of a share of their rows.
ALTER TABLE quota_usage SET (fillfactor = 50);
ALTER TABLE key_uses SET (fillfactor = 50);
ALTER TABLE graph_progress SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE webhook_sequences SET (fillfactor = 50);
ALTER TABLE hosts SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE rate_uses SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE audit_heads SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE graph_contributions SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
ALTER TABLE graph_sightings SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE graph_edges SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE webhook_events SET (autovacuum_vacuum_scale_factor = 0.02);
