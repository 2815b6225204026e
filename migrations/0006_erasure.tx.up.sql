-- What is held of a subject can be exported and erased (GDPR Art. 15 and 17). An erased record keeps its place, leaf and hash, so that
-- the chain still verifies, and the time that its partition goes by; everything else of it is null or empty.
ALTER TABLE audit_records
    ALTER COLUMN ref DROP NOT NULL,
    ALTER COLUMN at DROP NOT NULL,
    ADD COLUMN sealed_node bytea; -- the subject's node of the reputation graph, sealed: who holds the database alone cannot join the two. Not hashed
CREATE INDEX audit_records_by_pseudonym ON audit_records USING hash (pseudonym);

-- What each record of kind "erasure" erased. The record's digest signs the numbers and leaves, so that no other row can pass for one that was
-- erased rightly.
CREATE TABLE erased_records (
    chain   integer NOT NULL,
    seq     bigint NOT NULL,
    leaf    bytea NOT NULL,
    erasure bigint NOT NULL,       -- the number of the erasure's record
    ref     bytea NOT NULL UNIQUE, -- a keyed hash: tells whether a reference that is asked about again was erased, and nothing else
    PRIMARY KEY (chain, seq)
);
CREATE INDEX erased_records_by_erasure ON erased_records (chain, erasure, seq);

CREATE TABLE erasures (
    chain   integer NOT NULL,
    seq     bigint NOT NULL,   -- of its record
    subject bytea NOT NULL,    -- a keyed hash, likewise
    checks  integer NOT NULL,  -- how many it erased
    PRIMARY KEY (chain, seq)
);
CREATE INDEX erasures_by_subject ON erasures (subject);
