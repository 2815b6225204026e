-- A page of an account's checks, newest first: the checks before a reference, or the newest ones without a reference.
SELECT ref, type, score, verdict, at, key_id
FROM audit_records
WHERE account_id = ?account AND kind = 'check'
    AND (?before = '' OR (recorded_at, ref) < (
        SELECT recorded_at, ref FROM audit_records WHERE ref = ?before AND account_id = ?account LIMIT 1))
ORDER BY recorded_at DESC, ref DESC
LIMIT ?limit
