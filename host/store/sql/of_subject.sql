-- The records of a data subject, through the index audit_records_by_subject, which must be searched for each span of a
-- chain. OFFSET 0 keeps the planner from using another index for conditions that are added outside: as long as a
-- partition has no statistics, it considers the one on accounts more selective, and reads all records of the account.
(
    SELECT found.*
    FROM generate_series((SELECT min(seq) >> 16 FROM audit_records WHERE chain = ?chain),
        (SELECT max(seq) >> 16 FROM audit_records WHERE chain = ?chain)) AS span
    CROSS JOIN LATERAL (
        SELECT * FROM audit_records
        WHERE chain = ?chain AND seq >> 16 = span AND substr(pseudonym, 1, 8) = substr(?pseudonym::bytea, 1, 8)
            AND pseudonym = ?pseudonym
        OFFSET 0
    ) AS found
)
