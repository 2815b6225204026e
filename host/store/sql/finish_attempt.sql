-- The endpoint is updated, and so locked, before its event. RemoveEndpoint locks in the same order.
WITH endpoint AS (
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
    FROM webhook_events AS e
    WHERE e.ref = ?ref AND w.account_id = e.account_id AND CASE
        WHEN ?delivered THEN w.failed_at IS NOT NULL AND (w.disabled_at IS NULL
            OR w.disabled_at >= now() - (?elapsed + ?took) * interval '1 microsecond')
        ELSE w.disabled_at IS NULL AND (w.failed_at IS NULL
            OR w.failed_at <= now() - ?failure_interval * interval '1 second') END
    RETURNING w.account_id, w.disabled_at),
event AS (
    UPDATE webhook_events
    SET leased_until = NULL, tries = tries + 1,
        state = CASE WHEN ?delivered THEN 'delivered' WHEN tries >= ?retries THEN 'failed' ELSE 'pending' END,
        sealed_payload = CASE WHEN NOT ?delivered THEN sealed_payload END,
        settled_at = CASE WHEN ?delivered OR tries >= ?retries THEN now() END,
        next_attempt_at = CASE WHEN NOT ?delivered AND tries < ?retries
            THEN now() + ((?retry_delays::bigint[])[tries + 1] - ?elapsed) * interval '1 microsecond' END
    WHERE ref = ?ref AND CASE
        WHEN ?delivered THEN state <> 'delivered'
        ELSE state = 'pending' AND attempts = ?attempt AND leased_until IS NOT NULL END
    RETURNING next_attempt_at),
attempt AS (
    INSERT INTO webhook_attempts (ref, number, started_at, took_ms, status, error, sealed_answer)
    SELECT ref, ?attempt, now() - (?elapsed + ?took) * interval '1 microsecond', ?took / 1000, ?status, ?error,
        ?sealed_response
    FROM webhook_events WHERE ref = ?ref
    ON CONFLICT (ref, number) DO UPDATE SET started_at = EXCLUDED.started_at, took_ms = EXCLUDED.took_ms,
        status = EXCLUDED.status, error = EXCLUDED.error, sealed_answer = EXCLUDED.sealed_answer)
SELECT (SELECT account_id FROM endpoint WHERE disabled_at IS NOT NULL) AS disabled,
    (SELECT (1e6 * extract(epoch FROM next_attempt_at - now()))::bigint FROM event) AS delay_micros
