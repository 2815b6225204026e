SELECT p.sealed
FROM export_parts AS p
JOIN subject_requests AS q ON q.chain = p.chain AND q.id = p.id
WHERE p.chain = ?chain AND p.id = ?id AND p.after = ?after AND q.account_id = ?account AND q.state = 'done'
    AND q.settled_at > ?oldest
