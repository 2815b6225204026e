-- Stores the address of an account's owner, or the recovery address, which is kept if it is the same.
INSERT INTO owner_addresses AS a (account_id, recovery, match, sealed_address, confirmed_at, usable_at)
VALUES (?account, ?recovery, ?match, ?sealed, ?now, ?usable)
ON CONFLICT (account_id, recovery) DO UPDATE SET match = EXCLUDED.match, sealed_address = EXCLUDED.sealed_address,
    confirmed_at = EXCLUDED.confirmed_at, usable_at = EXCLUDED.usable_at
WHERE a.match <> EXCLUDED.match OR NOT a.recovery
