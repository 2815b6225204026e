-- Erases the content of a subject's records. Each keeps its place in the chain, its leaf and its hash.
UPDATE audit_records
SET kind = ?kind, at = NULL, ref = NULL, account_id = '', key_id = '', type = '', pseudonym = NULL, nonce = NULL,
    score = 0, verdict = '', revision = 0, digest = NULL, sealed_node = NULL
WHERE pseudonym = ?pseudonym AND account_id = ?account AND chain = ?chain AND seq <= ?last
