-- Adds a failure to an endpoint's series of failures, or ends the series after a success.
UPDATE webhook_endpoints AS w
SET failed_at = CASE WHEN NOT ?delivered THEN t.now END,
    failing_since = CASE WHEN ?delivered THEN NULL WHEN w.failed_at >= t.gap_began THEN w.failing_since ELSE t.now END,
    disabled_at = CASE WHEN NOT ?delivered AND w.failed_at >= t.gap_began AND w.failing_since <= t.bad_since
        THEN t.now END,
    disabled_reason = CASE WHEN NOT ?delivered AND w.failed_at >= t.gap_began AND w.failing_since <= t.bad_since
        THEN 'failing' END,
    notice = CASE WHEN ?delivered THEN 'recovered' WHEN w.failed_at >= t.gap_began AND w.failing_since <= t.bad_since
        THEN 'disabled' ELSE w.notice END
FROM (
    SELECT now() AS now,
        now() - ?max_failure_gap * interval '1 second' AS gap_began,
        now() - ?disable_after * interval '1 second' AS bad_since,
        now() - (?elapsed + ?took) * interval '1 microsecond' AS attempt_began,
        now() - ?failure_interval * interval '1 second' AS counted_until
    OFFSET 0) AS t -- Citus accepts no now() within CASE; without OFFSET the planner would move it there
WHERE w.account_id = ?account AND CASE
    WHEN ?delivered THEN w.failed_at IS NOT NULL AND (w.disabled_at IS NULL OR w.disabled_at >= t.attempt_began)
    ELSE w.disabled_at IS NULL AND (w.failed_at IS NULL OR w.failed_at <= t.counted_until) END
RETURNING w.disabled_at IS NOT NULL
