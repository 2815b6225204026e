-- Adds a failure to an endpoint's series of failures, or ends the series after a success.
UPDATE webhook_endpoints AS w
SET failed_at = CASE WHEN NOT ?delivered THEN now() END,
    failing_since = CASE
        WHEN ?delivered THEN NULL
        WHEN w.failed_at >= now() - ?max_failure_gap * interval '1 second' THEN w.failing_since
        ELSE now() END,
    disabled_at = CASE WHEN NOT ?delivered AND w.failed_at >= now() - ?max_failure_gap * interval '1 second'
        AND w.failing_since <= now() - ?disable_after * interval '1 second' THEN now() END,
    disabled_reason = CASE WHEN NOT ?delivered AND w.failed_at >= now() - ?max_failure_gap * interval '1 second'
        AND w.failing_since <= now() - ?disable_after * interval '1 second' THEN 'failing' END
WHERE w.account_id = ?account AND CASE
    WHEN ?delivered THEN w.failed_at IS NOT NULL AND (w.disabled_at IS NULL
        OR w.disabled_at >= now() - (?elapsed + ?took) * interval '1 microsecond')
    ELSE w.disabled_at IS NULL AND (w.failed_at IS NULL
        OR w.failed_at <= now() - ?failure_interval * interval '1 second') END
RETURNING w.disabled_at IS NOT NULL
