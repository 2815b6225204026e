-- Whether the chain was already cut here or later, and whether the record at the anchor has the anchor's hash.
SELECT
    EXISTS (SELECT FROM audit_anchors WHERE chain = ?chain AND seq >= ?seq) AS kept,
    EXISTS (SELECT FROM audit_records WHERE chain = ?chain AND seq = ?seq AND hash = ?hash) AS matches
