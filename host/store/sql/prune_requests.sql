DELETE FROM subject_requests WHERE chain = ?chain AND settled_at <= ?requests
