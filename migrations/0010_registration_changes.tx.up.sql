-- When the registry last changed a domain's record: its name servers, registrar or holder. Null: the registry does not
-- publish it, or it has not been asked since this column exists.
ALTER TABLE registrations ADD COLUMN changed timestamptz;
