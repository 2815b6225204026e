// Package fault says in errors what failed.
package fault

import "fmt"

// Wrap returns err with what failed, a gerund phrase, in front of it, or nil if err is nil.
func Wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}

// WrapAll wraps whatever error a function returns in its named result. The function defers it.
func WrapAll(err *error, doing string, args ...any) { *err = Wrap(*err, doing, args...) }
