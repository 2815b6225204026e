package store

import (
	"errors"
	"testing"
	"time"

	"assay/host/access/signin"
)

// A token without a session costs one query a second, however often it is presented.
func TestUnknownSessionsAreRemembered(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	token, _ := signin.NewToken()
	lookUp := func() error {
		_, _, err := s.Session(t.Context(), token, "")
		return err
	}
	wantError(t, "an unknown token", lookUp(), signin.ErrNoSession)
	noError(t, s.Close()) // from here on every query fails
	wantError(t, "the same token again", lookUp(), signin.ErrNoSession)
	now = now.Add(cacheInvalid)
	err := lookUp()
	holds(t, err != nil && !errors.Is(err, signin.ErrNoSession), "the same token after a second: %v", err)
}
