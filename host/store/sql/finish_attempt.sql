-- Records an attempt and completes its event or schedules the next attempt. Returns the account whose endpoint must be
-- updated by endpoint_outcome.sql.
WITH event AS (
    UPDATE webhook_events AS u
    SET leased_until = NULL, tries = tries + 1,
        state = CASE WHEN ?delivered THEN 'delivered' WHEN tries >= ?retries THEN 'failed' ELSE 'pending' END,
        sealed_payload = CASE WHEN NOT ?delivered THEN sealed_payload END,
        settled_at = CASE WHEN ?delivered OR tries >= ?retries THEN t.now END,
        next_attempt_at = CASE WHEN NOT ?delivered AND tries < ?retries THEN t.retries[tries + 1] END
    FROM (SELECT now() AS now, ARRAY(SELECT now() + (delay - ?elapsed) * interval '1 microsecond'
            FROM unnest(?retry_delays::bigint[]) WITH ORDINALITY AS d (delay, i) ORDER BY i) AS retries
        OFFSET 0) AS t -- Citus accepts no now() within CASE; without OFFSET the planner would move it there
    WHERE chain = ?chain AND ref = ?ref AND CASE
        WHEN ?delivered THEN state <> 'delivered'
        ELSE state = 'pending' AND attempts = ?attempt AND leased_until IS NOT NULL END
    RETURNING next_attempt_at),
attempt AS (
    INSERT INTO webhook_attempts (chain, ref, number, started_at, took_ms, status, error, sealed_answer,
        sealed_exchange)
    SELECT chain, ref, ?attempt, now() - (?elapsed + ?took) * interval '1 microsecond', ?took / 1000, ?status, ?error,
        ?sealed_response, ?sealed_exchange
    FROM webhook_events WHERE chain = ?chain AND ref = ?ref
    ON CONFLICT (chain, ref, number) DO UPDATE SET started_at = EXCLUDED.started_at, took_ms = EXCLUDED.took_ms,
        status = EXCLUDED.status, error = EXCLUDED.error, sealed_answer = EXCLUDED.sealed_answer,
        sealed_exchange = EXCLUDED.sealed_exchange)
SELECT (SELECT (1e6 * extract(epoch FROM next_attempt_at - now()))::bigint FROM event) AS delay_micros,
    (SELECT w.account_id FROM webhook_events AS e JOIN webhook_endpoints AS w USING (account_id)
        WHERE e.chain = ?chain AND e.ref = ?ref AND (?delivered AND w.failed_at IS NOT NULL
            OR NOT ?delivered AND w.disabled_at IS NULL AND (w.failed_at IS NULL
                OR w.failed_at <= now() - ?failure_interval * interval '1 second'))) AS account_id
