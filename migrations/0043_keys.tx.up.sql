-- The signed statements that introduce the keys of the audit log after the first (docs/audit-format.md).
CREATE TABLE audit_keys (
    number integer PRIMARY KEY CHECK (number >= 2),
    note   text NOT NULL
);
