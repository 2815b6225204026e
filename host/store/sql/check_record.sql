-- The record of a check, and the number of the record with which its chain's Merkle tree begins, or 0.
SELECT r.chain, r.seq, r.recorded_at, r.at, r.kind, r.ref, r.account_id, r.key_id, r.type, r.pseudonym, r.nonce,
    r.score, r.verdict, r.revision, r.digest, r.leaf, r.hash, coalesce(t.first, 0) AS first
FROM (SELECT * FROM audit_records WHERE chain = ?chain AND ref = ?ref OFFSET 0) AS r
LEFT JOIN audit_trees AS t ON t.chain = ?chain
WHERE r.account_id = ?account AND r.kind = 'check'
