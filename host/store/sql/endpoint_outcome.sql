-- Adds a failure to an endpoint's series of failures, or ends the series after a success.
UPDATE webhook_endpoints AS w
SET failed_at = CASE WHEN NOT ?delivered THEN t.now END,
    failing_since = CASE
        WHEN ?delivered THEN NULL
        WHEN w.failed_at >= t.now - ?max_failure_gap * interval '1 second' THEN w.failing_since
        ELSE t.now END,
    disabled_at = CASE WHEN NOT ?delivered AND w.failed_at >= t.now - ?max_failure_gap * interval '1 second'
        AND w.failing_since <= t.now - ?disable_after * interval '1 second' THEN t.now END,
    disabled_reason = CASE WHEN NOT ?delivered AND w.failed_at >= t.now - ?max_failure_gap * interval '1 second'
        AND w.failing_since <= t.now - ?disable_after * interval '1 second' THEN 'failing' END
FROM (SELECT now() AS now) AS t -- Citus accepts no now() within CASE
WHERE w.account_id = ?account AND CASE
    WHEN ?delivered THEN w.failed_at IS NOT NULL AND (w.disabled_at IS NULL
        OR w.disabled_at >= t.now - (?elapsed + ?took) * interval '1 microsecond')
    ELSE w.disabled_at IS NULL AND (w.failed_at IS NULL
        OR w.failed_at <= t.now - ?failure_interval * interval '1 second') END
RETURNING w.disabled_at IS NOT NULL
