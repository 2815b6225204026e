-- Whether an export to the same key was recorded recently.
SELECT EXISTS (
    SELECT
    FROM (SELECT * FROM audit_records WHERE chain = ?chain AND pseudonym = ?pseudonym AND recorded_at > ?since OFFSET 0)
        AS r -- see ofSubject
    WHERE account_id = ?account AND kind = ?kind AND key_id = ?key
)
