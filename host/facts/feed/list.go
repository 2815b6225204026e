package feed

import "time"

// List describes an imported list.
type List struct {
	ID         int       `json:"-"`
	Name       string    `json:"name"`
	Kind       Kind      `json:"kind"`
	Category   string    `json:"category,omitempty"` // of entries without a category of their own
	Source     string    `json:"source"`             // the file or URL it was read from
	Format     Format    `json:"format"`
	Licence    string    `json:"licence,omitempty"`
	Entries    int       `json:"entries"` // distinct entities
	Version    int       `json:"version"` // number of imports so far
	ImportedAt time.Time `json:"imported_at"`
	// FreshUntil is when the entries are out of date: they apply, but are no longer confirmed. nil means never.
	FreshUntil *time.Time `json:"fresh_until"`
	ExpiresAt  *time.Time `json:"expires_at"` // when the list ceases to apply; nil means never
}

// InForce reports whether the list applies at the given time.
func (l List) InForce(at time.Time) bool { return l.ExpiresAt == nil || l.ExpiresAt.After(at) }

// Change reports how an import changed a list. A ranked list is replaced whole.
type Change struct {
	Entries int `json:"entries"` // entries of the list after the import
	Added   int `json:"added"`
	Altered int `json:"altered"` // entries whose category or scope changed
	Removed int `json:"removed"`
}
