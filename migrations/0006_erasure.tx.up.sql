-- Export and erasure of a data subject (GDPR Art. 15 and 17). An erased record keeps its position, leaf and hash, so
-- that the chain still verifies, and recorded_at, which selects its partition. All other columns are null or empty.
ALTER TABLE audit_records
    ALTER COLUMN ref DROP NOT NULL,
    ALTER COLUMN at DROP NOT NULL,
    -- The subject's node in the reputation graph, encrypted so that the database alone cannot join the two. Not hashed.
    ADD COLUMN sealed_node bytea;
CREATE INDEX audit_records_by_pseudonym ON audit_records USING hash (pseudonym);

-- The records that each record of kind "erasure" erased. The erasure's digest signs their numbers and leaves, so that a
-- blanked record cannot pass for an erased one.
CREATE TABLE erased_records (
    chain   integer NOT NULL,
    seq     bigint NOT NULL,
    leaf    bytea NOT NULL,
    erasure bigint NOT NULL,       -- the number of the erasure's record
    ref     bytea NOT NULL UNIQUE, -- keyed hash of the erased reference
    PRIMARY KEY (chain, seq)
);
CREATE INDEX erased_records_by_erasure ON erased_records (chain, erasure, seq);

CREATE TABLE erasures (
    chain   integer NOT NULL,
    seq     bigint NOT NULL,   -- of the erasure's record
    subject bytea NOT NULL,    -- keyed hash of the subject's pseudonym
    checks  integer NOT NULL,  -- number of checks erased
    PRIMARY KEY (chain, seq)
);
CREATE INDEX erasures_by_subject ON erasures (subject);
