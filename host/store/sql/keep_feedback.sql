-- Stores a report in place of an earlier one. Layer scores stay unless new ones are given.
INSERT INTO feedback (chain, seq, ref, account_id, pseudonym, type, label, sealed_note, layers, given_at)
VALUES (?chain, ?seq, ?ref, ?account, ?pseudonym, ?type, ?label, ?note, ?layers::jsonb, ?now)
ON CONFLICT (chain, seq) DO UPDATE SET label = EXCLUDED.label, sealed_note = EXCLUDED.sealed_note,
    layers = coalesce(EXCLUDED.layers, feedback.layers), given_at = EXCLUDED.given_at
RETURNING layers IS NOT NULL
