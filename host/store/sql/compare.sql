-- The chains that do not contain the last record that a host answered for, and whether any host has found a loss that
-- is not accepted.
SELECT ARRAY(
        SELECT a.chain FROM unnest(?chains::integer[], ?seqs::bigint[], ?times::timestamptz[], ?hashes::bytea[])
            AS a (chain, seq, at, hash)
        WHERE NOT audit_contains(a.chain, a.seq, a.at, a.hash)) AS missing,
    EXISTS (SELECT 1 FROM audit_losses WHERE accepted IS NULL) AS lost
