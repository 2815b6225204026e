-- Whether an export to the same key was recorded recently.
SELECT EXISTS (
    SELECT
    FROM audit_records
    WHERE chain = ?chain AND pseudonym = ?pseudonym AND account_id = ?account AND kind = ?kind AND key_id = ?key
        AND recorded_at > ?since
)
