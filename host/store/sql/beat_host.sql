-- Records that a host is alive, and counts the hosts that are.
WITH beat AS (
    INSERT INTO hosts AS h (id, name, activation, revision, refused, problem, canary)
    VALUES (?id, ?name, ?activation, ?revision, ?refused, ?problem, ?canary)
    ON CONFLICT (id) DO UPDATE SET seen_at = EXCLUDED.seen_at, activation = EXCLUDED.activation,
        revision = EXCLUDED.revision, refused = EXCLUDED.refused, problem = EXCLUDED.problem, canary = EXCLUDED.canary
    RETURNING id)
SELECT count(*) FROM (
    SELECT id FROM beat UNION SELECT id FROM hosts WHERE seen_at >= now() - ?silent::interval AND id <> ?id) AS alive
