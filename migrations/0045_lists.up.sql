-- Lists become part of the audit log, as accounts and keys did in migration 0044: each import, confirmation and
-- withdrawal appends records to audit chain 1000000 in the same transaction.

-- Records the state of a list after a change and, after an import, that of its entries. The digests are computed first,
-- because changes of keys wait for the chain's head.
CREATE OR REPLACE FUNCTION record_list(of_id integer, with_entries boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    f feeds;
    of_list bytea;
    of_entries bytea;
    of_ranks bytea;
BEGIN
    SELECT * INTO f FROM feeds WHERE id = of_id;
    of_list := sha256(convert_to(jsonb_build_array('list', f.id, f.name, f.kind, f.category, f.source, f.format,
        f.licence, f.entries, f.version, extract(epoch FROM f.imported_at)::text,
        extract(epoch FROM f.expires_at)::text, extract(epoch FROM f.fresh_until)::text)::text, 'UTF8'));
    IF with_entries THEN
        SELECT string_agg(sha256(convert_to(jsonb_build_array(encode(e.node, 'hex'), e.type, e.value, e.name, e.page,
            e.category, extract(epoch FROM e.first_seen)::text)::text, 'UTF8')), '' ORDER BY e.node)
        INTO of_entries FROM feed_entries AS e WHERE e.feed_id = of_id;
        SELECT string_agg(sha256(r.prefix || r.ranks), '' ORDER BY r.prefix)
        INTO of_ranks FROM feed_ranks AS r WHERE r.feed_id = of_id;
    END IF;
    PERFORM record_state('list', '', f.name, f.kind, f.version, 0, of_list);
    IF with_entries THEN
        PERFORM record_state('list content', '', f.name, f.kind, f.version, 0,
            sha256(coalesce(of_entries, '') || coalesce(of_ranks, '')));
    END IF;
END $$;

--bun:split
-- Ends the claim of a subscription whose publisher still has the content at hand. Returns whether the claim held.
CREATE OR REPLACE FUNCTION confirm_list(
    of_name text, claimed_until timestamptz, at_time timestamptz, next timestamptz, fresh timestamptz,
    expires timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    of_id integer;
BEGIN
    UPDATE feed_subscriptions
    SET leased_until = NULL, next_fetch_at = next, confirmed_at = at_time, failing_since = NULL, failures = 0,
        error = '', held_entries = NULL, accepted_entries = NULL
    WHERE name = of_name AND leased_until = claimed_until;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE feeds SET fresh_until = fresh, expires_at = expires WHERE name = of_name RETURNING id INTO of_id;
    IF FOUND THEN
        PERFORM record_list(of_id, false);
    END IF;
    RETURN true;
END $$;

--bun:split
-- Disables a list and ends its subscription. Returns whether there was either. Its entries are deleted later.
CREATE OR REPLACE FUNCTION withdraw_list(of_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    subscribed boolean;
BEGIN
    DELETE FROM feed_subscriptions WHERE name = of_name;
    subscribed := FOUND;
    DELETE FROM feeds WHERE name = of_name;
    IF FOUND THEN
        PERFORM pg_notify('assay', 'feeds');
        PERFORM record_state('list', '', of_name, 'removed', 0, 0, NULL);
        PERFORM record_state('list content', '', of_name, 'removed', 0, 0, NULL);
        RETURN true;
    END IF;
    RETURN subscribed;
END $$;

--bun:split
-- One list in each transaction. If the migration is interrupted, it begins again.
DO $$
DECLARE
    of_id integer;
BEGIN
    FOR of_id IN SELECT id FROM feeds ORDER BY id LOOP
        PERFORM record_list(of_id, true);
        COMMIT;
    END LOOP;
END $$;
