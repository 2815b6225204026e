package store

import "github.com/uptrace/bun/schema"

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
