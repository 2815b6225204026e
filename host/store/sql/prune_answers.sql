-- Without waiting for rows that ledger_append is replacing.
DELETE FROM answers
WHERE chain = ?chain AND (account_id, key) IN (
    SELECT account_id, key FROM answers
    WHERE chain = ?chain AND at <= now() - interval '24 hours'
    LIMIT ?limit FOR UPDATE SKIP LOCKED)
