-- Whether checks can be recorded, the time, and the state of data that hosts follow.
SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only')::boolean AS read_only,
    (SELECT max(name) FROM schema_steps) AS schema, clock_timestamp() AS at,
    (SELECT coalesce(max(id), 0) FROM lineup_activations) AS activation,
    (SELECT coalesce(max(change), 0) FROM override_changes) AS override,
    (SELECT count(*) FROM candidates WHERE expires > now()) AS candidates,
    (SELECT coalesce(md5(string_agg(f::text, '' ORDER BY f.id)), '') FROM feeds AS f) AS lists
