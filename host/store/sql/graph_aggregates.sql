-- The aggregates of each subject. What a customer reported about a node counts in place of the blocked share of its
-- checks. A sighting or link counts as a vote of its customer, which halves every half_life
-- seconds; greatest(0, ...) keeps a clock that lags behind another host's from giving it more than one vote. OFFSET 0
-- keeps the planner from turning a few hundred lookups by key into a scan.
WITH subjects AS (
	SELECT subject, node FROM unnest(?subjects::bytea[]) WITH ORDINALITY AS s (node, subject)
),
parents AS (
	SELECT subject, node FROM unnest(?parent_subjects::bigint[], ?parents::bytea[]) AS p (subject, node)
),
-- What customers observed of the subject itself.
own AS (
	SELECT s.subject, count(*) AS customers, sum(least(g.checks, ?max_checks) * g.vote) AS seen,
		sum(g.vote * g.bad) / sum(g.vote) AS blocked_share,
		(array_agg(g.first_seen ORDER BY g.first_seen))[?min_customers] AS since
	FROM subjects AS s CROSS JOIN LATERAL (
		SELECT checks, first_seen,
			CASE label WHEN 'fraud' THEN 1 WHEN 'legitimate' THEN 0 ELSE blocked::float8 / checks END AS bad,
			power(0.5, greatest(0, extract(epoch FROM ?now - last_seen)) / ?half_life)::float8 AS vote
		FROM graph_sightings
		WHERE node = s.node AND account_id <> ?public AND last_seen > ?oldest LIMIT ?max_customers
	) AS g
	GROUP BY s.subject HAVING count(*) >= ?min_customers
),
-- The subject's links, none if it is a hub.
direct AS (
	SELECT s.subject, s.node, l.other, l.account_id, l.vote
	FROM subjects AS s CROSS JOIN LATERAL (
		SELECT other, account_id, vote FROM (
			SELECT *, count(*) OVER () AS links FROM (
				(SELECT high AS other, account_id,
					power(0.5, greatest(0, extract(epoch FROM ?now - last_seen)) / ?half_life)::float8 AS vote
				FROM graph_links WHERE low = s.node AND account_id <> ?public AND last_seen > ?oldest
				LIMIT ?max_links + 1)
				UNION ALL
				(SELECT low, account_id,
					power(0.5, greatest(0, extract(epoch FROM ?now - last_seen)) / ?half_life)::float8
				FROM graph_links WHERE high = s.node AND account_id <> ?public AND last_seen > ?oldest
				LIMIT ?max_links + 1)
			) AS side
		) AS counted WHERE links <= ?max_links
	) AS l
),
-- The nodes from which the second hop starts: the parents from parsing, and some of the linked nodes.
via AS (
	SELECT p.subject, s.node, p.node AS via FROM parents AS p JOIN subjects AS s ON s.subject = p.subject
	UNION
	SELECT subject, node, other FROM (
		SELECT subject, node, other, dense_rank() OVER (PARTITION BY subject ORDER BY other) AS rank FROM direct
	) AS ranked WHERE rank <= ?max_via
),
-- The links of both hops; the second hop has half the weight, and none through a hub.
linked AS (
	SELECT subject, other, account_id, vote, 1.0::float8 AS weight FROM direct
	UNION ALL
	SELECT v.subject, l.other, l.account_id, l.vote, 0.5::float8
	FROM via AS v CROSS JOIN LATERAL (
		SELECT other, account_id, vote FROM (
			SELECT *, count(*) OVER () AS links FROM (
				(SELECT high AS other, account_id,
					power(0.5, greatest(0, extract(epoch FROM ?now - last_seen)) / ?half_life)::float8 AS vote
				FROM graph_links WHERE low = v.via AND account_id <> ?public AND last_seen > ?oldest
				LIMIT ?max_links + 1)
				UNION ALL
				(SELECT low, account_id,
					power(0.5, greatest(0, extract(epoch FROM ?now - last_seen)) / ?half_life)::float8
				FROM graph_links WHERE high = v.via AND account_id <> ?public AND last_seen > ?oldest
				LIMIT ?max_links + 1)
			) AS side
		) AS counted WHERE links <= ?max_links
	) AS l WHERE l.other <> v.node
),
-- Each neighbouring entity as each customer knows it, with its badness from 0 to 1.
neighbours AS (
	SELECT l.subject, l.account_id, l.other, max(l.weight) AS weight, max(l.vote) AS vote,
		max(CASE WHEN listed.bad THEN 1 ELSE g.blocked_share END) AS bad
	FROM linked AS l
	CROSS JOIN LATERAL (
		SELECT CASE label WHEN 'fraud' THEN 1 WHEN 'legitimate' THEN 0 ELSE blocked::float8 / checks END
			AS blocked_share FROM graph_sightings
		WHERE node = l.other AND account_id = l.account_id AND kind IN ('domain', 'email', 'phone', 'iban') OFFSET 0
	) AS g
	CROSS JOIN LATERAL (
		SELECT coalesce(bool_or(f.kind = 'bad' AND NOT e.page) AND NOT bool_or(f.kind = 'good'), false) AS bad
		FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
		WHERE e.node = l.other AND (f.expires_at IS NULL OR f.expires_at > ?now) OFFSET 0
	) AS listed
	GROUP BY l.subject, l.account_id, l.other
),
votes AS (
	SELECT subject, max(vote) AS vote, sum(weight * bad) / sum(weight) AS share
	FROM neighbours GROUP BY subject, account_id
),
neighbourhood AS (
	SELECT subject, sum(vote * share) / sum(vote) AS risk
	FROM votes GROUP BY subject HAVING count(*) >= ?min_customers
),
counted AS (
	SELECT subject, count(DISTINCT other) AS neighbours FROM neighbours GROUP BY subject
)
SELECT s.subject, coalesce(o.customers, 0) AS customers, coalesce(o.seen, 0) AS seen,
	coalesce(o.blocked_share, 0) AS blocked_share, coalesce(o.since, 'epoch') AS since,
	coalesce(n.risk, 0) AS neighbour_risk, CASE WHEN n.subject IS NULL THEN 0 ELSE c.neighbours END AS neighbours
FROM subjects AS s LEFT JOIN own AS o ON o.subject = s.subject
LEFT JOIN neighbourhood AS n ON n.subject = s.subject LEFT JOIN counted AS c ON c.subject = s.subject
