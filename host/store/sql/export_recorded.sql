-- Whether an export to the same key was recorded recently, and whether the subject has been erased.
SELECT
    EXISTS (
        SELECT
        FROM audit_records
        WHERE pseudonym = ?pseudonym AND account_id = ?account AND kind = ?kind AND key_id = ?key
            AND recorded_at > ?since
    ) AS recorded,
    NOT EXISTS (SELECT FROM audit_records WHERE pseudonym = ?pseudonym AND account_id = ?account) AS erased
