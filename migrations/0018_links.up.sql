-- Copies the links from before migration 0014 to graph_edges, through its trigger. A transaction copies only a few of
-- them, because hosts of the last release wait for it if they see one of its links again. The migration may run again
-- after it was interrupted.
DO $$
DECLARE
    last_low bytea := '';
    last_high bytea := '';
    last_account text := '';
BEGIN
    LOOP
        WITH next AS (
            SELECT low, high, account_id FROM graph_links
            WHERE (low, high, account_id) > (last_low, last_high, last_account)
            ORDER BY low, high, account_id LIMIT 1000 FOR UPDATE
        ), copied AS (
            UPDATE graph_links AS l SET copied = true FROM next AS n
            WHERE l.low = n.low AND l.high = n.high AND l.account_id = n.account_id AND NOT l.copied
        )
        SELECT low, high, account_id INTO last_low, last_high, last_account FROM next
        ORDER BY low DESC, high DESC, account_id DESC LIMIT 1;
        EXIT WHEN NOT FOUND;
        COMMIT;
    END LOOP;
END $$;
