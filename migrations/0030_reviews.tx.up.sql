-- Reviews of checks by a person (GDPR Art. 22). A row is erased with its subject and pruned with its audit record,
-- whose place in the chain it shares.
CREATE TABLE reviews (
    chain          integer NOT NULL,
    seq            bigint NOT NULL,
    checked_at     timestamptz NOT NULL, -- recorded_at of the record
    ref            text NOT NULL,
    account_id     text NOT NULL,
    state          text NOT NULL CHECK (state IN ('asked', 'taken', 'upheld', 'overturned')),
    sealed_reason  bytea NOT NULL,           -- free text, which can name persons
    asked_at       timestamptz NOT NULL,
    reviewer       text NOT NULL DEFAULT '', -- the person who took it
    taken_at       timestamptz,
    sealed_finding bytea,                    -- the person's reasons
    settled_at     timestamptz,
    PRIMARY KEY (chain, seq),
    CHECK ((settled_at IS NOT NULL) = (state IN ('upheld', 'overturned')))
);
CREATE INDEX reviews_open ON reviews (asked_at) WHERE settled_at IS NULL;
CREATE INDEX reviews_by_ref ON reviews (ref);

-- Asks for a review of a check that the host has read, unless one was asked for. It locks the record first, as feedback
-- does.
CREATE FUNCTION ask_review(
    of_chain integer, of_seq bigint, of_ref text, of_account text, at_check timestamptz, reason bytea,
    at_time timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    PERFORM 1 FROM audit_records
        WHERE chain = of_chain AND seq = of_seq AND recorded_at = at_check AND ref = of_ref AND account_id = of_account
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the check was erased or pruned' USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO reviews (chain, seq, checked_at, ref, account_id, state, sealed_reason, asked_at)
    VALUES (of_chain, of_seq, at_check, of_ref, of_account, 'asked', reason, at_time)
    ON CONFLICT (chain, seq) DO NOTHING;
    RETURN true;
END $$;

-- Settles a review that a person has taken, and makes an overturned verdict feedback. Returns false if the person has
-- not taken it, or it is settled.
CREATE FUNCTION settle_review(
    of_chain integer, of_seq bigint, of_ref text, of_account text, of_pseudonym bytea, of_type text,
    at_check timestamptz, of_node bytea, by_person text, new_state text, finding bytea, at_time timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    PERFORM 1 FROM audit_records
        WHERE chain = of_chain AND seq = of_seq AND recorded_at = at_check AND ref = of_ref AND account_id = of_account
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the check was erased or pruned' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE reviews SET state = new_state, sealed_finding = finding, settled_at = at_time
        WHERE chain = of_chain AND seq = of_seq AND state = 'taken' AND reviewer = by_person;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF new_state = 'overturned' THEN
        PERFORM give_feedback(of_chain, of_seq, of_ref, of_account, of_pseudonym, of_type, at_check, of_node,
            'legitimate', NULL, NULL, at_time);
    END IF;
    RETURN true;
END $$;

-- Deletes the reviews of checks that the same transaction has erased, and returns how many there were. An erasure locks
-- the records first, so no review is asked for meanwhile.
CREATE FUNCTION erase_reviews(of_chain integer, seqs bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    erased bigint;
BEGIN
    DELETE FROM reviews WHERE chain = of_chain AND seq = ANY (seqs);
    GET DIAGNOSTICS erased = ROW_COUNT;
    RETURN erased;
END $$;
