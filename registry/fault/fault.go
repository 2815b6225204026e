// Package fault adds to errors what failed.
package fault

import "fmt"

// Wrap returns err after a gerund phrase that says what failed, or nil if err is nil.
func Wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}

// WrapAll wraps the error that a function returns in its named result. Call it with defer.
func WrapAll(err *error, doing string, args ...any) { *err = Wrap(*err, doing, args...) }
