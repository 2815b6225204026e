-- What a key is limited to. A key without a row has every scope, and works from any address until it is revoked. A row
-- never changes, and is deleted after its key. Hosts of the last release do not read it.
CREATE TABLE key_limits (
    key_id   text PRIMARY KEY,
    scopes   text[] CHECK (cardinality(scopes) > 0),   -- null: all
    networks text[] CHECK (cardinality(networks) > 0), -- in CIDR notation; null: any address
    lifetime interval, -- also of a key that replaces this one; null: it works until it is revoked
    test     boolean NOT NULL
);

-- Adds a key to an account, or replaces one that expires after overlap_ends. The new key has the limits of the replaced
-- one, or those in the member limits of key, if there are any. Returns why not, or an empty text. As in migration 0015,
-- but with limits.
CREATE OR REPLACE FUNCTION add_key(
    key jsonb, replaces text, overlap_ends timestamptz, max_keys integer, at_time timestamptz, plans jsonb,
    serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a accounts := account_lock(key ->> 'account_id');
    replaced_name text;
    limits key_limits := jsonb_populate_record(NULL::key_limits, key -> 'limits');
    ends timestamptz;
BEGIN
    IF replaces <> '' THEN
        SELECT name INTO replaced_name FROM api_keys WHERE id = replaces AND account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time);
        IF NOT FOUND THEN
            RETURN 'no such key';
        END IF;
        key := key || jsonb_build_object('name', replaced_name);
        SELECT * INTO limits FROM key_limits WHERE key_id = replaces;
    ELSIF NOT keys_enabled(a, plans, serving) THEN
        RETURN 'the subscription has ended';
    END IF;
    IF (SELECT count(*) FROM api_keys WHERE account_id = a.id AND state = 'valid'
            AND (expires_at IS NULL OR expires_at > at_time)) >= max_keys THEN
        RETURN 'too many keys';
    END IF;
    PERFORM insert_key(key);
    IF limits.test IS NOT NULL THEN
        INSERT INTO key_limits (key_id, scopes, networks, lifetime, test)
        VALUES (key ->> 'id', limits.scopes, limits.networks, limits.lifetime, limits.test);
        IF limits.lifetime IS NOT NULL THEN
            ends := at_time + limits.lifetime;
            UPDATE api_keys SET expires_at = ends WHERE id = key ->> 'id';
        END IF;
    END IF;
    IF replaces <> '' THEN
        -- A key that is replaced twice expires at the earlier time.
        UPDATE api_keys SET expires_at = least(expires_at, overlap_ends) WHERE id = replaces;
        PERFORM pg_notify('assay', 'keys');
    END IF;
    RETURN '';
END $$;
