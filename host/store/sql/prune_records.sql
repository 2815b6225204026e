-- Deletes the first records of a chain up to a number.
DELETE FROM audit_records WHERE chain = ?chain AND seq <= (
    SELECT max(seq) FROM (
        SELECT seq FROM audit_records WHERE chain = ?chain AND seq <= ?seq ORDER BY seq LIMIT ?limit
    ) AS r
)
