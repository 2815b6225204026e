-- An account's plan, whether it ever had a subscription, and whether one serves it.
SELECT a.plan,
    EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id) AS subscribed,
    EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id AND status IN (?serving)) AS serving
FROM accounts AS a
WHERE a.id = ?account
