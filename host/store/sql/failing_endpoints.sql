SELECT count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NOT NULL) AS failing, count(disabled_at) AS disabled
FROM webhook_endpoints
