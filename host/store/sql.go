package store

import (
	"database/sql"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"assay/registry/fault"
)

// statements are the files of the folder sql.
//
//go:embed sql
var statements embed.FS

// statement returns the text of a file, which must exist.
func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// query returns a query with the text of a file.
func query(db bun.IDB, name string, args ...any) *bun.RawQuery {
	return db.NewRaw(statement(name), args...)
}

// named holds the arguments of a statement by the names of its ?name parameters.
type named map[string]any

// AppendNamedArg implements schema.NamedArgAppender.
func (n named) AppendNamedArg(gen schema.QueryGen, b []byte, name string) ([]byte, bool) {
	v, ok := n[name]
	if !ok {
		return b, false
	}
	return gen.AppendQuery(b, "?", v), true
}

// columns holds the values of a row by column, for jsonb_populate_record.
type columns map[string]any

// json encodes the row. Byte strings are in the hexadecimal input format of bytea; nil is null.
func (c columns) json() string {
	c = maps.Clone(c)
	for name, v := range c {
		switch v := v.(type) {
		case []byte:
			c[name] = nil
			if v != nil {
				c[name] = `\x` + hex.EncodeToString(v)
			}
		case time.Time:
			c[name] = v.Truncate(time.Microsecond) // as bun does; Postgres would round
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // columns are texts, numbers, times and byte strings
	}
	return string(text)
}

// wrap says what failed, as a gerund phrase, if err is not nil.
func wrap(err error, doing string, args ...any) error { return fault.Wrap(err, doing, args...) }

// orElse returns otherwise if err says that there is no row.
func orElse(err, otherwise error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return otherwise
	}
	return err
}
