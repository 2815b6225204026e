-- Keeps the newest old checkpoint of each hour of a chain, and the newest that a witness signed.
DELETE FROM audit_checkpoints WHERE chain = ?chain AND size IN (
    SELECT size FROM (
        SELECT size, cosignatures = '' AND lead(size) OVER hour IS NOT NULL
            OR bool_or(cosignatures <> '') OVER (hour ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS superseded
        FROM audit_checkpoints
        WHERE chain = ?chain AND signed_at < date_trunc('hour', now()) - interval '1 day'
        WINDOW hour AS (PARTITION BY date_trunc('hour', signed_at) ORDER BY size)) AS c
    WHERE superseded)
