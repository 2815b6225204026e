-- Signed activations. Everything here is added: hosts of the release before keep following lineup_activations. They
-- cannot sign, so they no longer change it.

-- Citus accepts neither several of these statements in one message nor a new column that has a constraint.
DO $$ BEGIN
    -- The lineup as it was hashed and signed. Null in revisions from before, whose digest is that of their document.
    ALTER TABLE lineup_revisions ADD COLUMN text text;

    -- What the signed note says, for queries; `audit verify` compares them. Null in activations from before.
    ALTER TABLE lineup_activations
        ADD COLUMN number bigint,
        ADD COLUMN signed text, -- a signed note, see package activation
        ADD COLUMN hash bytea,  -- of the note's text
        ADD COLUMN canary_revision bigint,
        ADD COLUMN share integer;
    ALTER TABLE lineup_activations ADD CONSTRAINT lineup_activations_number_key UNIQUE (number);
    ALTER TABLE lineup_activations ADD CONSTRAINT lineup_activations_canary_revision_fkey
        FOREIGN KEY (canary_revision) REFERENCES lineup_revisions;
END $$;

-- The revisions that checks may be recorded under. until is when one stopped being in force.
CREATE TABLE revisions_in_force (
    revision bigint PRIMARY KEY,
    until    timestamptz
);
INSERT INTO revisions_in_force (revision) SELECT revision FROM lineup_activations ORDER BY id DESC LIMIT 1;

-- Stores a lineup and returns its revision, which is that of an equal lineup if there is one.
CREATE FUNCTION store_lineup(canonical text, hash bytea, new_origin text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known bigint;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE; -- serialises changes of the lineup
    SELECT revision INTO known FROM lineup_revisions AS r WHERE r.digest = hash AND r.text = canonical;
    IF NOT FOUND THEN
        known := (SELECT coalesce(max(revision), 0) + 1 FROM lineup_revisions);
        INSERT INTO lineup_revisions (revision, document, text, digest, origin)
        VALUES (known, canonical::jsonb, canonical, hash, new_origin);
    END IF;
    RETURN known;
END $$;

-- Puts a signed activation in force and appends an entry to each chain, unless another activation is in force than the
-- one with the hash base (null: none that is signed). Returns why not, or an empty text. A chain whose head was altered
-- is left out: it does not verify anyway.
--
-- The heads are locked before the time is read at which revisions stop being in force, so that checks that were recorded
-- while this waited are before the entry. `audit verify` knows at_time only, so this does not wait long.
CREATE FUNCTION activate(
    base bytea, new_number bigint, new_signed text, new_hash bytea, new_revision bigint, new_canary bigint,
    new_share integer, new_note text, at_time timestamptz,
    entries jsonb -- by chain
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one integer;
    began timestamptz := clock_timestamp();
    ended timestamptz;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE; -- serialises changes of the lineup
    IF base IS DISTINCT FROM (SELECT hash FROM lineup_activations WHERE signed IS NOT NULL ORDER BY id DESC LIMIT 1) THEN
        RETURN 'base';
    ELSIF new_number <= (SELECT max(number) FROM lineup_activations) THEN
        RETURN 'number';
    END IF;
    INSERT INTO lineup_activations (id, revision, note, activated_at, number, signed, hash, canary_revision, share)
        SELECT coalesce(max(id), 0) + 1, new_revision, new_note, at_time, new_number, new_signed, new_hash, new_canary,
            new_share FROM lineup_activations;
    FOREACH one IN ARRAY audit_lock_all('3s') LOOP
        CONTINUE WHEN (SELECT octet_length(hash) FROM audit_heads WHERE chain = one ORDER BY seq DESC LIMIT 1) <> 32;
        IF entries -> one::text IS NULL THEN
            RAISE EXCEPTION 'audit chain % is new', one USING ERRCODE = 'serialization_failure';
        END IF;
        PERFORM audit_append(one, entries -> one::text);
    END LOOP;
    ended := clock_timestamp();
    IF ended > began + interval '2 s' THEN
        RAISE EXCEPTION 'the activation waited too long for the heads' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE revisions_in_force SET until = ended
        WHERE until IS NULL AND revision NOT IN (new_revision, coalesce(new_canary, new_revision));
    INSERT INTO revisions_in_force AS f (revision)
        SELECT new_revision UNION SELECT new_canary WHERE new_canary IS NOT NULL
        ON CONFLICT (revision) DO UPDATE SET until = NULL;
    PERFORM pg_notify('assay', 'lineup');
    RETURN '';
END $$;

-- As in migration 0015, for hosts and commands of the release before that opened the database before this migration.
-- Once an activation is signed, a host that is starting follows it instead of its built-in lineup; commands fail.
CREATE OR REPLACE FUNCTION activate_lineup(
    new_revision bigint, new_document jsonb, new_digest bytea, new_origin text, new_note text,
    entries jsonb -- by chain
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one integer;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE; -- serialises changes of the lineup
    IF EXISTS (SELECT FROM lineup_activations WHERE signed IS NOT NULL) THEN
        IF new_document IS NOT NULL AND new_origin = 'built-in' THEN
            RETURN;
        END IF;
        RAISE EXCEPTION 'lineups are signed by now: change them with a newer release of assay'
            USING ERRCODE = 'feature_not_supported';
    END IF;
    IF new_document IS NOT NULL THEN
        IF new_revision <> (SELECT coalesce(max(revision), 0) + 1 FROM lineup_revisions) THEN
            RAISE EXCEPTION 'lineup revision % is taken', new_revision USING ERRCODE = 'serialization_failure';
        END IF;
        INSERT INTO lineup_revisions (revision, document, digest, origin)
            VALUES (new_revision, new_document, new_digest, new_origin);
    END IF;
    INSERT INTO lineup_activations (id, revision, note)
        SELECT coalesce(max(id), 0) + 1, new_revision, new_note FROM lineup_activations;
    FOREACH one IN ARRAY audit_lock_all('3s') LOOP
        CONTINUE WHEN (SELECT octet_length(hash) FROM audit_heads WHERE chain = one ORDER BY seq DESC LIMIT 1) <> 32;
        IF entries -> one::text IS NULL THEN
            RAISE EXCEPTION 'audit chain % is new', one USING ERRCODE = 'serialization_failure';
        END IF;
        PERFORM audit_append(one, entries -> one::text);
    END LOOP;
    INSERT INTO revisions_in_force (revision) VALUES (new_revision) ON CONFLICT (revision) DO UPDATE SET until = NULL;
    PERFORM pg_notify('assay', 'lineup');
END $$;
