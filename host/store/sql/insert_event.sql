-- Adds a test event to the outbox and numbers it in its account's sequence.
WITH numbered AS (
    INSERT INTO webhook_sequences AS s (chain, account_id, last) VALUES (?chain, ?account, 1)
    ON CONFLICT (chain, account_id) DO UPDATE SET last = s.last + 1
    RETURNING last)
INSERT INTO webhook_events (chain, ref, account_id, event, type, score, occurred_at, sealed_payload, sequence, state,
    next_attempt_at, created_at)
SELECT ?chain, ?ref, ?account, ?event, ?type, ?score, ?at, ?payload, last, 'pending', now(), now() FROM numbered
