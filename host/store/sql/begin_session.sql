-- Begins a session. The statement before it, "used", takes the code or link and returns its account. Two transactions
-- would let a sign-in under way begin its session after the code was replaced and all sessions were ended.
INSERT INTO sessions (id, hash, account_id, began_at, used_at, proved_at, expires_at, browser, network)
SELECT ?id, ?hash::bytea, account_id, ?now::timestamptz, ?now::timestamptz, ?now::timestamptz, ?expires::timestamptz,
    ?browser, ?network
FROM used
RETURNING account_id
