-- A page of an account's checks, newest first. It reads ?reads records at most: the last one that it reads comes back
-- even if it does not match, and the next page starts after it.
SELECT ref, recorded_at, type, score, verdict, key_id, revision, overridden, matches, number
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.recorded_at DESC, r.ref DESC) AS number,
        (?verdict = '' OR r.verdict = ?verdict) AND (?type = '' OR r.type = ?type)
        AND (?key = '' OR r.key_id = ?key) AS matches
    FROM (
        SELECT r.ref, r.recorded_at, r.type, r.score, r.verdict, r.key_id, r.revision,
            r.digest IS NOT NULL AS overridden
        FROM ?records AS r
        WHERE r.chain = ?chain AND r.account_id = ?account AND r.kind = 'check'
            AND r.recorded_at >= ?from AND r.recorded_at < ?until AND r.recorded_at <= ?before
            AND (r.recorded_at, r.ref) < (?before, ?ref)
        ORDER BY r.recorded_at DESC, r.ref DESC
        LIMIT ?reads
    ) AS r
) AS r
WHERE matches OR number = ?reads
ORDER BY number
LIMIT ?limit
