-- Stores a host's answer about a candidate, unless the candidate has ended.
INSERT INTO candidate_hosts AS c (candidate, host, state, reason, report)
SELECT id, ?host, ?state, ?reason, ?report::jsonb FROM candidates WHERE id = ?candidate FOR KEY SHARE
ON CONFLICT (candidate, host) DO UPDATE
    SET state = EXCLUDED.state, reason = EXCLUDED.reason, report = EXCLUDED.report
