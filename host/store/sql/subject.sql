-- A subject's erasures, whether the account has overrides of it, and whether contributions of the chain are not in the
-- reputation graph yet.
SELECT
    (SELECT coalesce(jsonb_agg(jsonb_build_object('ref', r.ref, 'timestamp',
            to_char(r.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'checks', e.checks) ORDER BY e.seq), '[]')
        FROM erasures AS e JOIN audit_records AS r ON r.chain = e.chain AND r.seq = e.seq
        WHERE e.chain = ?chain AND e.subject = ?tombstone) AS erasures,
    EXISTS (SELECT 1 FROM overrides WHERE account_id = ?account AND subject = ?pseudonym) AS overridden,
    EXISTS (SELECT 1 FROM graph_contributions WHERE chain = ?chain) AS waiting
