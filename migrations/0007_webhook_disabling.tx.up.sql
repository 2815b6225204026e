-- An endpoint that fails for days is disabled. What it refuses or does not answer is noted once a minute at most, and forgotten
-- with the first success.
ALTER TABLE webhook_endpoints
    ADD COLUMN failing_since   timestamptz, -- the first failed attempt since the last success; null: the last attempt succeeded, or there was none
    ADD COLUMN failed_at       timestamptz, -- a late one of them
    ADD COLUMN disabled_at     timestamptz, -- from then on only test events are sent; null: it is enabled
    ADD COLUMN disabled_reason text CHECK (disabled_reason IN ('failing')),
    ADD CHECK ((failing_since IS NULL) = (failed_at IS NULL)),
    ADD CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL));
