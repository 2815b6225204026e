-- Signed notes about published plugins: who signed a module, and what was measured of it.
CREATE TABLE plugin_notes (
    digest bytea NOT NULL REFERENCES plugin_modules,
    kind   text NOT NULL CHECK (kind IN ('signature', 'passport')),
    note   text NOT NULL,
    PRIMARY KEY (digest, kind)
);
