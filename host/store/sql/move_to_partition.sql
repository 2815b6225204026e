-- Moves the records of a month from the default partition to the month's table, so that it can be attached.
WITH moved AS (
    DELETE FROM audit_records_other
    WHERE recorded_at >= ?from AND recorded_at < ?to
    RETURNING *
)
INSERT INTO ?partition SELECT * FROM moved
