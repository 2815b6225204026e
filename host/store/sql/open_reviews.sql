-- The reviews of all accounts that are not settled, oldest first, or the review of one check.
SELECT v.chain, v.seq, v.ref, v.reviewer, v.state AS review, v.sealed_reason AS review_reason,
    v.asked_at AS review_asked_at, v.taken_at AS review_taken_at, v.settled_at AS review_settled_at,
    v.sealed_finding AS review_finding,
    r.account_id, r.type, r.score, r.verdict, r.revision, r.recorded_at, r.pseudonym, r.sealed_node
FROM reviews AS v
JOIN audit_records AS r ON r.chain = v.chain AND r.seq = v.seq AND r.recorded_at = v.checked_at AND r.ref = v.ref
WHERE ?ref = '' AND v.settled_at IS NULL OR v.ref = ?ref
ORDER BY v.asked_at, v.ref
LIMIT ?limit
