-- An endpoint that fails for days is disabled. Failures are stored at most once a minute, and cleared by the first
-- success.
ALTER TABLE webhook_endpoints
    -- The first failed attempt since the last success. Null: the last attempt succeeded, or there was none.
    ADD COLUMN failing_since   timestamptz,
    ADD COLUMN failed_at       timestamptz, -- a recent failed attempt
    ADD COLUMN disabled_at     timestamptz, -- only test events are sent from then on; null: enabled
    ADD COLUMN disabled_reason text CHECK (disabled_reason IN ('failing')),
    ADD CHECK ((failing_since IS NULL) = (failed_at IS NULL)),
    ADD CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL));
