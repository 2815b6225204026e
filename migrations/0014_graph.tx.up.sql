-- The reputation graph is a projection: the ledger stores sealed contributions, and any host applies them a moment
-- later, each exactly once. Every lookup names its node.

-- How far the contributions of each chain are applied. Those up to number applied are, and no others.
CREATE TABLE graph_progress (
    chain   integer PRIMARY KEY,
    applied bigint NOT NULL DEFAULT 0,
    forgets bigint NOT NULL DEFAULT 0  -- counts the rows added to graph_forgotten
);
INSERT INTO graph_progress (chain) SELECT DISTINCT chain FROM audit_heads;

-- What must be left out of contributions that are not applied yet, up to number up_to.
CREATE TABLE graph_forgotten (
    chain      integer NOT NULL,
    account_id text NOT NULL,   -- empty: all accounts
    node       bytea NOT NULL,  -- empty: all nodes
    up_to      bigint NOT NULL,
    PRIMARY KEY (chain, account_id, node)
);

-- Items of contributions that could not be read, for whoever looks for the cause.
CREATE TABLE graph_unreadable (
    chain    integer NOT NULL,
    seq      bigint NOT NULL, -- of the record
    item     bytea NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chain, seq)
);

-- The times of an entity's checks within the last day, newest first: at most 64, each in seconds since 1970 as a 32-bit
-- integer. Null for other nodes.
ALTER TABLE graph_sightings ADD COLUMN recent bytea;

-- Two nodes seen together, once in each direction. It replaces graph_links.
CREATE TABLE graph_edges (
    node       bytea NOT NULL,
    other      bytea NOT NULL,
    account_id text NOT NULL,
    checks     integer NOT NULL,
    last_seen  timestamptz NOT NULL,
    PRIMARY KEY (node, other, account_id)
);

-- Applies what a host has read and added up: the contributions of a chain after number of_applied up to number up_to.
-- It does nothing, and returns false, if another host applies contributions of the chain at the moment, has applied
-- them, or if something was forgotten since the host looked. The rows are in the order of their keys, so that hosts
-- that apply other chains lock common rows in the same order. Losing the latest transactions in a crash is harmless:
-- the contributions are then back too.
CREATE FUNCTION graph_apply(
    of_chain integer, of_applied bigint, of_forgets bigint, up_to bigint, batches integer,
    nodes bytea[], accounts text[], kinds text[], counts integer[], blocks integer[], reviews integer[],
    since timestamptz[], until timestamptz[], times bytea[],
    edge_nodes bytea[], edge_others bytea[], edge_accounts text[], edge_counts integer[], edge_until timestamptz[],
    bad_seqs bigint[], bad_items bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    deleted integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '500ms', true);
    PERFORM FROM graph_progress
        WHERE chain = of_chain AND applied = of_applied AND forgets = of_forgets FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO graph_sightings AS g
        (node, account_id, kind, checks, blocked, reviewed, first_seen, last_seen, recent)
    SELECT * FROM unnest(nodes, accounts, kinds, counts, blocks, reviews, since, until, times)
    ON CONFLICT (node, account_id) DO UPDATE SET
        checks = least(g.checks::bigint + EXCLUDED.checks, 2147483647),
        blocked = least(g.blocked::bigint + EXCLUDED.blocked, 2147483647),
        reviewed = least(g.reviewed::bigint + EXCLUDED.reviewed, 2147483647),
        last_seen = greatest(g.last_seen, EXCLUDED.last_seen),
        recent = substring(EXCLUDED.recent || coalesce(g.recent, ''), 1, 256);
    INSERT INTO graph_edges AS g (node, other, account_id, checks, last_seen)
    SELECT * FROM unnest(edge_nodes, edge_others, edge_accounts, edge_counts, edge_until)
    ON CONFLICT (node, other, account_id) DO UPDATE SET
        checks = least(g.checks::bigint + EXCLUDED.checks, 2147483647),
        last_seen = greatest(g.last_seen, EXCLUDED.last_seen);
    INSERT INTO graph_unreadable (chain, seq, item)
    SELECT of_chain, b.seq, b.item FROM unnest(bad_seqs, bad_items) AS b (seq, item)
    ON CONFLICT (chain, seq) DO NOTHING;
    DELETE FROM graph_contributions WHERE chain = of_chain AND seq <= up_to;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    IF deleted <> batches THEN
        RAISE 'chain % has % batches of contributions up to %, not %', of_chain, deleted, up_to, batches;
    END IF;
    DELETE FROM graph_forgotten AS f WHERE f.chain = of_chain AND f.up_to <= graph_apply.up_to;
    UPDATE graph_progress SET applied = up_to WHERE chain = of_chain;
    RETURN true;
END $$;

-- Leaves a node of an account out of what is not applied yet. An empty account selects all accounts, and an empty node
-- all nodes. What was applied is in the graph when it returns. It holds the progress of the account's chain until the
-- transaction ends.
CREATE FUNCTION graph_forget_pending(of_account text, of_node bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    home integer := (SELECT a.chain FROM accounts AS a WHERE a.id = of_account);
    p graph_progress;
    pending bigint;
BEGIN
    FOR p IN SELECT * FROM graph_progress WHERE chain = coalesce(home, chain) ORDER BY chain LOOP
        SELECT * INTO p FROM graph_progress WHERE chain = p.chain FOR UPDATE;
        pending := (SELECT max(c.seq) FROM graph_contributions AS c WHERE c.chain = p.chain AND c.seq > p.applied);
        IF pending IS NOT NULL THEN
            INSERT INTO graph_forgotten (chain, account_id, node, up_to) VALUES (p.chain, of_account, of_node, pending)
            ON CONFLICT (chain, account_id, node) DO UPDATE SET up_to = EXCLUDED.up_to;
            UPDATE graph_progress SET forgets = forgets + 1 WHERE chain = p.chain;
        END IF;
    END LOOP;
END $$;

-- Deletes an entity's node: its sightings, its links, and what the links added to the sightings of its parents. Linked
-- entities keep their sightings, because they were checked themselves. An empty account selects all accounts.
CREATE FUNCTION graph_forget_node(of_account text, of_node bytea, OUT sightings bigint, OUT links bigint)
LANGUAGE plpgsql AS $$
DECLARE
    others bytea[];
    owners text[];
    counts integer[];
BEGIN
    PERFORM graph_forget_pending(of_account, of_node);
    WITH deleted AS (
        DELETE FROM graph_edges WHERE node = of_node AND (of_account = '' OR account_id = of_account)
        RETURNING other, account_id, checks
    )
    SELECT array_agg(other), array_agg(account_id), array_agg(checks), count(*) FROM deleted
    INTO others, owners, counts, links;
    DELETE FROM graph_edges
        WHERE node = ANY (others) AND other = of_node AND (of_account = '' OR account_id = of_account);
    DELETE FROM graph_sightings WHERE node = of_node AND (of_account = '' OR account_id = of_account);
    GET DIAGNOSTICS sightings = ROW_COUNT;
    UPDATE graph_sightings AS g SET checks = g.checks - l.checks
        FROM unnest(others, owners, counts) AS l (other, account_id, checks)
        WHERE g.node = ANY (others) AND g.node = l.other AND g.account_id = l.account_id
            AND g.kind NOT IN ('domain', 'email', 'phone', 'iban');
    DELETE FROM graph_sightings
        WHERE node = ANY (others) AND account_id = ANY (owners) AND checks <= 0
            AND kind NOT IN ('domain', 'email', 'phone', 'iban');
    DELETE FROM graph_links
        WHERE (low = of_node OR high = of_node) AND (of_account = '' OR account_id = of_account);
END $$;

-- The reads. Each looks up one node at a time, and reads no more of it than it needs: a large mail provider has a row
-- for every customer.

-- What is known of each node, in their order; nothing of nodes that nobody saw since the given time: whether enough
-- customers saw it, and what the account did. An empty account selects none.
CREATE FUNCTION graph_known(nodes bytea[], accounts text[], public_account text, since timestamptz, enough integer)
RETURNS TABLE (i bigint, known boolean, first_seen timestamptz, recent bytea) LANGUAGE plpgsql STABLE AS $$
DECLARE
    one bytea;
    owner text;
    customers integer;
BEGIN
    FOR one, owner, i IN SELECT * FROM unnest(nodes, accounts) WITH ORDINALITY LOOP
        customers := (SELECT count(*) FROM (
            SELECT FROM graph_sightings AS g
            WHERE g.node = one AND g.account_id <> public_account AND g.last_seen > since LIMIT enough
        ) AS s);
        CONTINUE WHEN customers = 0;
        known := customers >= enough;
        first_seen := NULL;
        IF owner <> '' THEN
            SELECT g.first_seen, g.recent INTO first_seen, recent
            FROM graph_sightings AS g WHERE g.node = one AND g.account_id = owner AND g.last_seen > since;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- What each customer observed of each node.
CREATE FUNCTION graph_rows(nodes bytea[], public_account text, since timestamptz, most integer)
RETURNS SETOF graph_sightings LANGUAGE plpgsql STABLE AS $$
DECLARE
    one bytea;
BEGIN
    FOREACH one IN ARRAY nodes LOOP
        RETURN QUERY SELECT * FROM graph_sightings AS g
            WHERE g.node = one AND g.account_id <> public_account AND g.last_seen > since LIMIT most;
    END LOOP;
END $$;

-- The links of each node. A hub, which has more than the given number, has one row without another node instead.
CREATE FUNCTION graph_neighbours(nodes bytea[], public_account text, since timestamptz, most integer)
RETURNS SETOF graph_edges LANGUAGE plpgsql STABLE AS $$
DECLARE
    one bytea;
BEGIN
    FOREACH one IN ARRAY nodes LOOP
        IF (SELECT count(*) FROM (
            SELECT FROM graph_edges AS g
            WHERE g.node = one AND g.account_id <> public_account AND g.last_seen > since LIMIT most + 1
        ) AS s) > most THEN
            RETURN QUERY SELECT one, NULL::bytea, '', 0, since;
        ELSE
            RETURN QUERY SELECT * FROM graph_edges AS g
                WHERE g.node = one AND g.account_id <> public_account AND g.last_seen > since;
        END IF;
    END LOOP;
END $$;

-- Hosts of the last release read and write graph_links until they are replaced. What they write is added to
-- graph_edges, and so is each row that was there before (migration 0018), once. What they delete because it is old
-- stays, because other hosts may have seen it since.
ALTER TABLE graph_links ADD COLUMN copied boolean NOT NULL DEFAULT false;
ALTER TABLE graph_links ALTER COLUMN copied SET DEFAULT true;
CREATE FUNCTION graph_copy_link() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    added bigint;
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.last_seen > now() - interval '89 days' THEN
            DELETE FROM graph_edges
                WHERE node IN (OLD.low, OLD.high) AND other IN (OLD.low, OLD.high) AND account_id = OLD.account_id;
        END IF;
        RETURN NULL;
    END IF;
    added := NEW.checks;
    IF TG_OP = 'UPDATE' AND OLD.copied THEN
        added := added - OLD.checks;
    END IF;
    NEW.copied := true;
    INSERT INTO graph_edges AS g (node, other, account_id, checks, last_seen)
    VALUES (NEW.low, NEW.high, NEW.account_id, added, NEW.last_seen),
        (NEW.high, NEW.low, NEW.account_id, added, NEW.last_seen)
    ON CONFLICT (node, other, account_id) DO UPDATE SET
        checks = least(g.checks::bigint + EXCLUDED.checks, 2147483647),
        last_seen = greatest(g.last_seen, EXCLUDED.last_seen);
    RETURN NEW;
END $$;
CREATE TRIGGER graph_copy_updated BEFORE UPDATE ON graph_links FOR EACH ROW EXECUTE FUNCTION graph_copy_link();
CREATE TRIGGER graph_copy_other AFTER INSERT OR DELETE ON graph_links FOR EACH ROW EXECUTE FUNCTION graph_copy_link();
