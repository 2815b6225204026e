SELECT name, reset_val AS value, wanted, quote_ident(current_user) AS role, quote_ident(current_database()) AS database
FROM pg_settings JOIN (VALUES
	('bytea_output', 'hex', '{}'::text[]),
	('default_transaction_isolation', 'read committed', '{}'), -- locks must show the latest commits
	('synchronous_commit', 'on', '{remote_apply}'),
	('statement_timeout', '0', '{}'), -- it would cancel a commit that waits for a standby
	('lock_timeout', '0', '{}')
) AS needs (name, wanted, others) USING (name)
WHERE reset_val <> wanted AND reset_val <> ALL (others)
ORDER BY name
