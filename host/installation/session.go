package installation

import (
	"context"

	"assay/host/internal/terminal"
	"assay/host/store"
)

// Command holds what a command needs: the settings, and the terminal that it writes to.
type Command struct {
	*Config
	*terminal.Terminal
	session *Session // nil until Open
}

// Session is a command line with its installation open.
type Session struct {
	*Command
	*Backend
}

// Open opens the installation that the settings name. It creates nothing. The creator of c closes it.
func (c *Command) Open(ctx context.Context) (*Session, error) {
	if c.session != nil {
		return c.session, nil
	}
	b, err := Open(ctx, c.Config, c.Terminal, QuietLog(c.Terminal), store.RequireSchema)
	if err != nil {
		return nil, err
	}
	c.session = &Session{Command: c, Backend: b}
	return c.session, nil
}

// Close closes the installation if it is open.
func (c *Command) Close() error {
	if c.session == nil {
		return nil
	}
	return c.session.Backend.Close()
}
