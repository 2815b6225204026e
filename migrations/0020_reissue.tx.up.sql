-- On a cluster, one statement cannot change a table that every machine has a copy of and read one that is distributed.

-- Issues the key of a checkout that the host has read, in place of the given one, which must be unused. Returns why
-- not, 'ended' if the subscription has ended in the meantime (then the key can only sign in), or an empty text.
CREATE OR REPLACE FUNCTION claim_key(
    checkout jsonb, checkout_before text, replaces text, key jsonb, at_time timestamptz, plans jsonb, serving text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c billing_checkouts := jsonb_populate_record(NULL::billing_checkouts, checkout);
    a accounts;
    used boolean;
    ended boolean;
BEGIN
    PERFORM FROM billing_checkouts AS b WHERE id = c.id AND b::text = checkout_before FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkout has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    a := account_lock(c.account_id);
    IF replaces <> '' THEN
        -- No use is missed, because a check with the key would hold the lock of the account's chain.
        used := EXISTS (SELECT FROM key_uses AS u WHERE u.chain = a.chain AND u.key_id = replaces);
        UPDATE api_keys SET state = 'revoked', ended_at = now()
        WHERE id = replaces AND state = 'valid' AND expires_at IS NULL AND last_used_at IS NULL AND NOT used;
        IF NOT FOUND THEN
            RETURN 'in use';
        END IF;
        PERFORM pg_notify('assay', 'keys');
    END IF;
    ended := NOT keys_enabled(a, plans, serving);
    PERFORM insert_key(key || CASE WHEN ended THEN jsonb_build_object('state', 'cancelled', 'ended_at', at_time)
        ELSE jsonb_build_object('state', 'valid') END);
    UPDATE billing_checkouts SET state = c.state, key_id = c.key_id, reissues = c.reissues, claimed_at = c.claimed_at
        WHERE id = c.id;
    RETURN CASE WHEN ended THEN 'ended' ELSE '' END;
END $$;
