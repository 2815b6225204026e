-- Locks the heads of all chains in ascending order, and returns the numbers of the chains. A chain whose head was
-- damaged cannot grow, so it needs no lock.
CREATE OR REPLACE FUNCTION audit_lock_all(patience text) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    all_chains integer[] := ARRAY(SELECT DISTINCT chain FROM audit_heads ORDER BY chain);
    one integer;
BEGIN
    FOREACH one IN ARRAY all_chains LOOP
        BEGIN
            PERFORM audit_lock(one, patience);
        EXCEPTION WHEN data_corrupted THEN -- as reports say that verify the chain
        END;
    END LOOP;
    RETURN all_chains;
END $$;
