-- Hosts claim the due events of one chain at a time.
DROP INDEX webhook_events_due;
CREATE INDEX webhook_events_due ON webhook_events (chain, account_id, next_attempt_at, ref) WHERE state = 'pending';
