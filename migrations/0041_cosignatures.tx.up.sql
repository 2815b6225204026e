-- The signature lines of witnesses (C2SP tlog-cosignature) of a checkpoint, which follow its note.
ALTER TABLE audit_checkpoints ADD COLUMN cosignatures text NOT NULL DEFAULT '';

-- Finds the newest cosigned checkpoint of a chain if the newest ones wait for their witnesses.
CREATE INDEX audit_checkpoints_cosigned ON audit_checkpoints (chain, size) WHERE cosignatures <> '';
