-- Deletes the data of exports that can no longer be downloaded.
WITH old AS (
    UPDATE subject_requests SET state = 'deleted'
    WHERE chain = ?chain AND kind = 'export' AND state = 'done' AND settled_at <= ?exports
    RETURNING id
)
DELETE FROM export_parts WHERE chain = ?chain AND id IN (SELECT id FROM old)
