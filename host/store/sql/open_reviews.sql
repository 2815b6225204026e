-- The reviews of all accounts that are not settled, or the review of one check. Accounts take turns, so that none hides
-- the reviews of others; those of an account are listed oldest first.
SELECT v.chain, v.seq, v.ref, v.reviewer, v.state AS review, v.sealed_reason AS review_reason,
    v.asked_at AS review_asked_at, v.taken_at AS review_taken_at, v.settled_at AS review_settled_at,
    v.sealed_finding AS review_finding,
    r.account_id, r.type, r.score, r.verdict, r.revision, r.recorded_at, r.pseudonym, r.sealed_node
FROM (
    SELECT *, row_number() OVER (PARTITION BY chain, account_id ORDER BY asked_at, ref) AS turn
    FROM reviews WHERE ?ref = '' AND settled_at IS NULL OR ref = ?ref) AS v
JOIN audit_records AS r ON r.chain = v.chain AND r.seq = v.seq AND r.recorded_at = v.checked_at AND r.ref = v.ref
ORDER BY v.turn, v.asked_at, v.ref
LIMIT ?limit
