-- The unique keys of a table that lack a column, and statements that replace each: by another key that has the column
-- in addition, or otherwise by itself with the column added.
SELECT k.name::text,
    CASE WHEN k.named THEN format('ALTER TABLE %I DROP CONSTRAINT %I', $1::text, k.name)
        ELSE format('DROP INDEX %I', k.name) END,
    format(CASE WHEN k.spare IS NULL AND k.indisprimary THEN 'ALTER TABLE %1$I ADD CONSTRAINT %2$I PRIMARY KEY (%3$s, %4$I)'
        WHEN k.spare IS NULL THEN 'CREATE UNIQUE INDEX %2$I ON %1$I (%3$s, %4$I)'
        WHEN k.indisprimary THEN 'ALTER TABLE %1$I ADD PRIMARY KEY USING INDEX %5$I'
        ELSE '' END, $1::text, k.name, k.columns, $2::text, k.spare)
FROM (
    SELECT c.relname AS name, i.indisprimary, n.oid IS NOT NULL AS named,
        (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY o.place)
            FROM unnest(i.indkey) WITH ORDINALITY AS o (number, place)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = o.number) AS columns,
        (SELECT s.relname FROM pg_index AS j JOIN pg_class AS s ON s.oid = j.indexrelid
            WHERE j.indrelid = i.indrelid AND j.indisunique AND (d.attnum || ' ' || i.indkey::text)::int2vector::int2[]
                <@ j.indkey::int2[] AND j.indkey::int2[] <@ (d.attnum || ' ' || i.indkey::text)::int2vector::int2[]
            ORDER BY s.relname LIMIT 1) AS spare
    FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_attribute AS d ON d.attrelid = i.indrelid AND d.attname = $2::text
    LEFT JOIN pg_constraint AS n ON n.conindid = c.oid AND n.contype IN ('p', 'u')
    WHERE i.indrelid = to_regclass($1::text) AND i.indisunique AND d.attnum <> ALL (i.indkey)
) AS k
ORDER BY k.name
