INSERT INTO sign_in_codes AS c (account_id, hash, issued_at, used_at)
VALUES (?account, ?hash, ?now, CASE WHEN ?replace THEN ?now::timestamptz END)
ON CONFLICT (account_id) DO UPDATE SET hash = EXCLUDED.hash, issued_at = EXCLUDED.issued_at, used_at = EXCLUDED.used_at
WHERE ?replace OR c.used_at IS NULL
