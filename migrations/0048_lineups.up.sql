-- Lineups, plugins and overrides become part of the audit log, as accounts, keys and lists did in migrations 0044 and
-- 0045: each change appends records to audit chain 1000000 in the same transaction. So they can be verified without the
-- installation's secret and the keys that it trusts.
--
-- If the migration is interrupted, it begins again.

-- As record_state, unless the chain's head was altered or is gone: the chain does not verify then, and what scores must
-- be changeable all the same.
CREATE OR REPLACE FUNCTION record_if_intact(
    of_type text, of_account text, of_key text, state text, ends bigint, digest bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT octet_length(hash) FROM audit_heads WHERE chain = 1000000 ORDER BY seq DESC LIMIT 1) = 32 THEN
        PERFORM record_state(of_type, of_account, of_key, state, 0, ends, digest);
    END IF;
END $$;

--bun:split
-- Records the state of a lineup after a change: what it is, and whether checks may be recorded under it.
CREATE OR REPLACE FUNCTION record_lineup(of_revision bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM record_if_intact('lineup', '', of_revision::text, coalesce(r.origin, ''), 0, sha256(convert_to(
        jsonb_build_array('lineup', r.revision, r.document, r.text, encode(r.digest, 'hex'), r.origin,
            extract(epoch FROM r.created_at)::text, f.revision IS NOT NULL, extract(epoch FROM f.until)::text)::text,
        'UTF8')))
    FROM lineup_revisions AS r FULL JOIN revisions_in_force AS f ON f.revision = r.revision
    WHERE coalesce(r.revision, f.revision) = of_revision;
END $$;

--bun:split
-- Records an activation, which never changes.
CREATE OR REPLACE FUNCTION record_activation(of_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM record_if_intact('activation', '', a.id::text, '', 0, sha256(convert_to(jsonb_build_array('activation',
        a.id, a.revision, a.note, extract(epoch FROM a.activated_at)::text, a.number, a.signed, encode(a.hash, 'hex'),
        a.canary_revision, a.share)::text, 'UTF8')))
    FROM lineup_activations AS a WHERE a.id = of_id;
END $$;

--bun:split
-- Records a version of a plugin, which never changes.
CREATE OR REPLACE FUNCTION record_plugin(of_name text, of_version text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM record_if_intact('plugin', '', p.name || '@' || p.version, '', 0, sha256(convert_to(jsonb_build_array(
        'plugin', p.name, p.version, encode(p.digest, 'hex'), p.manifest, p.first_party,
        extract(epoch FROM p.published_at)::text)::text, 'UTF8')))
    FROM plugin_versions AS p WHERE p.name = of_name AND p.version = of_version;
END $$;

--bun:split
-- Records the state of a module after a change of the notes about it. The digest is computed before the chain is
-- locked.
CREATE OR REPLACE FUNCTION record_module(of_digest bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM record_if_intact('module', '', encode(m.digest, 'hex'), '', 0, sha256(convert_to(jsonb_build_array('module',
        encode(m.digest, 'hex'), encode(sha256(m.wasm), 'hex'), extract(epoch FROM m.created_at)::text,
        (SELECT jsonb_object_agg(n.kind, n.note) FROM plugin_notes AS n WHERE n.digest = m.digest))::text, 'UTF8')))
    FROM plugin_modules AS m WHERE m.digest = of_digest;
END $$;

--bun:split
-- Records an override, which never changes, with the time in milliseconds from which its row may be deleted.
CREATE OR REPLACE FUNCTION record_override(of_id text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM record_if_intact('override', o.account_id, o.id, o.action,
        (extract(epoch FROM o.expires_at) * 1000)::bigint, sha256(convert_to(jsonb_build_array('override', o.id,
            o.account_id, o.action, o.kind, encode(o.match, 'hex'), encode(o.subject, 'hex'), o.masked,
            encode(o.sealed_reason, 'hex'), o.author, extract(epoch FROM o.created_at)::text,
            extract(epoch FROM o.expires_at)::text, encode(o.mac, 'hex'))::text, 'UTF8')))
    FROM overrides AS o WHERE o.id = of_id;
END $$;

--bun:split
-- Locks all chains and appends each one's entry. A chain whose head was altered is left out: it does not verify anyway.
CREATE OR REPLACE FUNCTION audit_append_all(
    entries jsonb -- by chain
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one integer;
BEGIN
    FOREACH one IN ARRAY audit_lock_all('3s') LOOP
        CONTINUE WHEN (SELECT octet_length(hash) FROM audit_heads WHERE chain = one ORDER BY seq DESC LIMIT 1) <> 32;
        IF entries -> one::text IS NULL THEN
            RAISE EXCEPTION 'audit chain % is new', one USING ERRCODE = 'serialization_failure';
        END IF;
        PERFORM audit_append(one, entries -> one::text);
    END LOOP;
END $$;

--bun:split
-- As in migration 0022, with a record.
CREATE OR REPLACE FUNCTION store_lineup(canonical text, hash bytea, new_origin text) RETURNS bigint
LANGUAGE plpgsql AS $$
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
        PERFORM record_lineup(known);
    END IF;
    RETURN known;
END $$;

--bun:split
-- As in migration 0022, with records of the activation and of each lineup that comes into force or stops being so.
CREATE OR REPLACE FUNCTION activate(
    base bytea, new_number bigint, new_signed text, new_hash bytea, new_revision bigint, new_canary bigint,
    new_share integer, new_note text, at_time timestamptz,
    entries jsonb -- by chain
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
    ended timestamptz;
    new_id bigint;
    changed bigint[];
    lineup bigint;
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
            new_share FROM lineup_activations
        RETURNING id INTO new_id;
    PERFORM audit_append_all(entries);
    ended := clock_timestamp();
    IF ended > began + interval '2 s' THEN
        RAISE EXCEPTION 'the activation waited too long for the heads' USING ERRCODE = 'serialization_failure';
    END IF;
    changed := ARRAY(SELECT revision FROM revisions_in_force WHERE until IS NULL);
    UPDATE revisions_in_force SET until = ended
        WHERE until IS NULL AND revision NOT IN (new_revision, coalesce(new_canary, new_revision));
    INSERT INTO revisions_in_force AS f (revision)
        SELECT new_revision UNION SELECT new_canary WHERE new_canary IS NOT NULL
        ON CONFLICT (revision) DO UPDATE SET until = NULL;
    PERFORM record_activation(new_id);
    FOR lineup IN SELECT DISTINCT unnest(changed || ARRAY[new_revision, new_canary]) ORDER BY 1 LOOP
        PERFORM record_lineup(lineup); -- none for null
    END LOOP;
    PERFORM pg_notify('assay', 'lineup');
    RETURN '';
END $$;

--bun:split
-- As in migration 0022, with records.
CREATE OR REPLACE FUNCTION activate_lineup(
    new_revision bigint, new_document jsonb, new_digest bytea, new_origin text, new_note text,
    entries jsonb -- by chain
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    new_id bigint;
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE;
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
        SELECT coalesce(max(id), 0) + 1, new_revision, new_note FROM lineup_activations
        RETURNING id INTO new_id;
    PERFORM audit_append_all(entries);
    INSERT INTO revisions_in_force (revision) VALUES (new_revision) ON CONFLICT (revision) DO UPDATE SET until = NULL;
    PERFORM record_activation(new_id);
    PERFORM record_lineup(new_revision);
    PERFORM pg_notify('assay', 'lineup');
END $$;

--bun:split
-- Publishes a version of a plugin, and notes about its module. Returns false, and must be rolled back, if the version
-- has another module.
CREATE OR REPLACE FUNCTION publish_plugin(
    of_name text, of_version text, of_digest bytea, of_wasm bytea, of_manifest jsonb, built_in boolean, notes jsonb
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    is_new boolean;
    changed boolean;
BEGIN
    INSERT INTO plugin_modules (digest, wasm) VALUES (of_digest, of_wasm) ON CONFLICT DO NOTHING;
    changed := FOUND;
    INSERT INTO plugin_versions (name, version, digest, manifest, first_party)
    VALUES (of_name, of_version, of_digest, of_manifest, built_in) ON CONFLICT DO NOTHING;
    is_new := FOUND;
    IF (SELECT digest FROM plugin_versions WHERE name = of_name AND version = of_version) <> of_digest THEN
        RETURN false;
    END IF;
    INSERT INTO plugin_notes AS n (digest, kind, note)
    SELECT of_digest, key, value FROM jsonb_each_text(notes) ORDER BY key
    ON CONFLICT (digest, kind) DO UPDATE SET note = EXCLUDED.note WHERE n.note <> EXCLUDED.note;
    changed := changed OR FOUND;
    IF changed THEN
        PERFORM record_module(of_digest);
    END IF;
    IF is_new THEN
        PERFORM record_plugin(of_name, of_version);
    END IF;
    PERFORM pg_notify('assay', 'plugins');
    RETURN true;
END $$;

--bun:split
-- As in migration 0024, with records.
CREATE OR REPLACE FUNCTION override_add(
    of_chain integer, by_key text, at_time timestamptz, entry jsonb, added jsonb,
    replaces text, removed jsonb, max_overrides integer
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    o overrides := jsonb_populate_record(NULL::overrides, entry);
BEGIN
    PERFORM override_changed(o.account_id); -- before the head, because others may hold its lock
    PERFORM audit_lock(of_chain);
    IF by_key <> '' THEN
        PERFORM require_key(o.account_id, by_key, at_time);
    END IF;
    IF replaces <> coalesce((SELECT id FROM overrides WHERE account_id = o.account_id AND match = o.match), '') THEN
        RAISE EXCEPTION 'the override has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    IF replaces <> '' THEN
        DELETE FROM overrides WHERE id = replaces;
        PERFORM audit_append(of_chain, removed);
        PERFORM record_if_intact('override', o.account_id, replaces, 'removed', 0, NULL);
    ELSIF max_overrides > 0 AND (SELECT count(*) FROM overrides
            WHERE account_id = o.account_id AND expires_at > at_time) >= max_overrides THEN
        RETURN 'too many';
    END IF;
    INSERT INTO overrides SELECT o.*;
    PERFORM audit_append(of_chain, added);
    PERFORM record_override(o.id);
    PERFORM pg_notify('assay', 'overrides');
    RETURN '';
END $$;

--bun:split
-- As in migration 0024, with a record.
CREATE OR REPLACE FUNCTION override_remove(
    of_chain integer, of_account text, by_key text, at_time timestamptz, of_id text, of_mac bytea, removed jsonb
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM override_changed(of_account);
    PERFORM audit_lock(of_chain);
    IF by_key <> '' THEN
        PERFORM require_key(of_account, by_key, at_time);
    END IF;
    DELETE FROM overrides WHERE id = of_id AND account_id = of_account AND mac = of_mac;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM audit_append(of_chain, removed);
    PERFORM record_if_intact('override', of_account, of_id, 'removed', 0, NULL);
    PERFORM pg_notify('assay', 'overrides');
    RETURN true;
END $$;

--bun:split
-- One row in each transaction, locked against changes first, because changes of keys wait for the chain's head.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT revision FROM lineup_revisions ORDER BY revision LOOP
        LOCK TABLE lineup_activations IN SHARE ROW EXCLUSIVE MODE;
        PERFORM record_lineup(one.revision);
        COMMIT;
    END LOOP;
    FOR one IN SELECT id FROM lineup_activations ORDER BY id LOOP
        PERFORM record_activation(one.id);
        COMMIT;
    END LOOP;
    FOR one IN SELECT name, version FROM plugin_versions ORDER BY name, version LOOP
        PERFORM record_plugin(one.name, one.version);
        COMMIT;
    END LOOP;
    FOR one IN SELECT digest FROM plugin_modules ORDER BY digest LOOP
        LOCK TABLE plugin_notes IN SHARE ROW EXCLUSIVE MODE;
        PERFORM record_module(one.digest);
        COMMIT;
    END LOOP;
    FOR one IN SELECT id FROM overrides ORDER BY id LOOP
        LOCK TABLE override_changes IN SHARE ROW EXCLUSIVE MODE;
        PERFORM record_override(one.id);
        COMMIT;
    END LOOP;
END $$;
