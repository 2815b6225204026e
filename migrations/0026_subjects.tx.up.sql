-- The records of a data subject. Pseudonyms are random, so an index on them alone grows in random places: with ten
-- million records, nearly every insertion changes another page, and after a checkpoint Postgres logs the whole page.
-- Here, insertions stay within the last 65,536 records of each chain, and a search asks for each such span.
--
-- On a table with records, hosts build the index while others write, and then drop the one that it replaces: see
-- completeIndexes in package store.
DO $migration$
DECLARE
    whole boolean := true;
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        -- Otherwise no function could be changed after the index, which would be built on all machines at once.
        PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
    ELSE
        whole := NOT EXISTS (SELECT FROM audit_records);
    END IF;
    IF whole THEN
        DROP INDEX audit_records_by_pseudonym;
        CREATE INDEX audit_records_by_subject ON audit_records ((seq >> 16), substr(pseudonym, 1, 8));
    ELSE
        CREATE INDEX audit_records_by_subject ON ONLY audit_records ((seq >> 16), substr(pseudonym, 1, 8));
    END IF;
END $migration$;

-- As in migration 0015.
CREATE OR REPLACE FUNCTION audit_export(
    of_chain integer, of_account text, by_key text, at_time timestamptz, of_pseudonym bytea, entry jsonb
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM audit_lock(of_chain);
    PERFORM require_key(of_account, by_key, at_time);
    IF EXISTS (
        SELECT
        FROM generate_series((SELECT min(seq) >> 16 FROM audit_records WHERE chain = of_chain),
            (SELECT max(seq) >> 16 FROM audit_records WHERE chain = of_chain)) AS span
        JOIN audit_records AS r ON r.chain = of_chain AND r.seq >> 16 = span
            AND substr(r.pseudonym, 1, 8) = substr(of_pseudonym, 1, 8) AND r.pseudonym = of_pseudonym
    ) THEN
        PERFORM audit_append(of_chain, entry);
    END IF;
END $$;
