-- An account has at most one live subscription. A customer who pays for another one, such as from a second tab, gets
-- the money back: hosts cancel and refund the subscriptions in billing_refunds.

CREATE TABLE billing_refunds (
    subscription_id text PRIMARY KEY,       -- in billing_subscriptions, where it has no account
    account_id      text NOT NULL,          -- it had a subscription already
    checkout_id     text,                   -- the payment's; null: another subscription had paid for the checkout
    found_at        timestamptz NOT NULL DEFAULT now(),
    refunded_at     timestamptz             -- null: not yet
);
CREATE INDEX billing_refunds_by_account ON billing_refunds (account_id);

-- Pairs of checkouts that one browser had open for a new customer at the same time. Together they pay for one account.
CREATE TABLE billing_tabs (
    checkout_id text NOT NULL,
    earlier     text NOT NULL, -- a checkout whose key was not shown when this one began
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (checkout_id, earlier)
);
CREATE INDEX billing_tabs_by_earlier ON billing_tabs (earlier);

-- Earlier releases accepted a second subscription, which the customer could not see. The one that was shown stays.
DO $$
DECLARE
    extra record;
BEGIN
    LOCK TABLE billing_subscriptions IN SHARE ROW EXCLUSIVE MODE;
    FOR extra IN SELECT id, account_id FROM (
            SELECT id, account_id, row_number() OVER (PARTITION BY account_id
                ORDER BY status IN ('active', 'past_due') DESC, changed_at DESC, id) AS place
            FROM billing_subscriptions WHERE account_id IS NOT NULL AND status NOT IN ('incomplete', 'canceled')) AS s
            WHERE place > 1 LOOP
        INSERT INTO billing_refunds (subscription_id, account_id) VALUES (extra.id, extra.account_id);
        UPDATE billing_subscriptions SET account_id = NULL WHERE id = extra.id;
    END LOOP;
    CREATE UNIQUE INDEX billing_subscriptions_live ON billing_subscriptions (account_id)
        WHERE status NOT IN ('incomplete', 'canceled');
END $$;

-- Applies a payment event once: stores the subscription that the host computed from the checkout and the subscription
-- that it has read, and what follows for the account. The account is that of a customer who has just paid, or null. If
-- another live subscription serves the account, or the one that the customer paid for in another tab, this one is to be
-- refunded and changes nothing.
CREATE OR REPLACE FUNCTION apply_billing(
    event text, of_checkout text, checkout_before text, subscription_before text, subscription jsonb, paid boolean,
    account jsonb, plans jsonb, serving text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    sub billing_subscriptions := jsonb_populate_record(NULL::billing_subscriptions, subscription);
    c billing_checkouts;
    s billing_subscriptions;
    other_tab text; -- the account that was paid for in another tab
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    SELECT * INTO c FROM billing_checkouts WHERE id = of_checkout FOR UPDATE;
    IF subscription_before IS NULL THEN -- a placeholder, so that other events of it wait
        INSERT INTO billing_subscriptions (id, provider) VALUES (sub.id, sub.provider) ON CONFLICT (id) DO NOTHING;
        IF FOUND THEN
            subscription_before := (SELECT b::text FROM billing_subscriptions AS b WHERE id = sub.id);
        END IF;
    END IF;
    SELECT * INTO s FROM billing_subscriptions WHERE id = sub.id FOR UPDATE;
    INSERT INTO billing_events (id) VALUES (event) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN; -- applied before
    END IF;
    IF (c.id IS NOT NULL AND c::text IS DISTINCT FROM checkout_before)
            OR (c.id IS NULL AND checkout_before IS NOT NULL) OR s::text IS DISTINCT FROM subscription_before THEN
        RAISE EXCEPTION 'the subscription has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    IF account IS NOT NULL THEN
        PERFORM FROM billing_tabs AS t WHERE t.checkout_id = of_checkout OR t.earlier = of_checkout
            ORDER BY t.checkout_id, t.earlier FOR UPDATE; -- payments in two tabs take turns
        SELECT b.account_id INTO other_tab FROM billing_tabs AS t
            JOIN billing_checkouts AS k ON k.id IN (t.checkout_id, t.earlier) AND k.id <> of_checkout
            JOIN billing_subscriptions AS b ON b.account_id = k.account_id
            WHERE (t.checkout_id = of_checkout OR t.earlier = of_checkout)
                AND b.status NOT IN ('incomplete', 'canceled')
            LIMIT 1;
        IF FOUND THEN
            sub.account_id := other_tab;
        ELSE
            PERFORM insert_account(account);
        END IF;
    END IF;
    IF paid THEN
        UPDATE billing_checkouts SET state = 'paid', account_id = sub.account_id WHERE id = of_checkout;
    END IF;
    IF sub.account_id IS NOT NULL AND sub.status NOT IN ('incomplete', 'canceled') THEN
        PERFORM FROM webhook_endpoints WHERE account_id = sub.account_id FOR UPDATE; -- see apply_subscriptions
        PERFORM account_lock(sub.account_id);
        IF EXISTS (SELECT FROM billing_subscriptions AS b WHERE b.account_id = sub.account_id AND b.id <> sub.id
                AND b.status NOT IN ('incomplete', 'canceled')) THEN
            INSERT INTO billing_refunds (subscription_id, account_id, checkout_id)
            VALUES (sub.id, sub.account_id, CASE WHEN paid THEN of_checkout END) ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM billing_refunds WHERE subscription_id = sub.id) THEN
        sub.account_id := NULL;
    END IF;
    UPDATE billing_subscriptions
    SET account_id = sub.account_id, customer = sub.customer, plan = sub.plan, status = sub.status,
        ends_at = sub.ends_at, changed_at = sub.changed_at
    WHERE id = sub.id;
    IF sub.account_id IS NOT NULL THEN
        PERFORM apply_subscriptions(sub.account_id, plans, serving);
    END IF;
END $$;
