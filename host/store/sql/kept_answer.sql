-- An answer that ledger_append would not replace.
SELECT request, sealed FROM answers
WHERE chain = ?chain AND account_id = ?account AND key_hash = ?key AND kept_at > now() - interval '24 hours'
