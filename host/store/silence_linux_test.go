package store

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"golang.org/x/sys/unix"

	"assay/host/store/postgres/postgrestest"
)

// The system ends connections to a database that does not acknowledge what was sent.
func TestConnectionsEndAfterSilence(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	pool := must(connect(url, 1))(t)
	t.Cleanup(func() { _ = pool.Close() })
	conn := must(pool.Conn(t.Context()))(t)
	expect(t, "timeout of the pool's connection in ms", userTimeout(t, conn), int(maxSilence.Milliseconds()))

	// Without a TCP connection there is nothing to set.
	cfg := must(connConfig(url))(t)
	listener := must(net.Listen("unix", t.TempDir()+"/socket"))(t)
	defer listener.Close()
	noError(t, must(cfg.DialFunc(t.Context(), "unix", listener.Addr().String()))(t).Close())
}

// userTimeout reads the option back from a connection.
func userTimeout(t *testing.T, conn bun.Conn) (milliseconds int) {
	t.Helper()
	noError(t, conn.Raw(func(c any) error {
		raw, err := c.(*stdlib.Conn).Conn().PgConn().Conn().(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		failed := raw.Control(func(fd uintptr) {
			milliseconds, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		})
		if failed != nil {
			return failed
		}
		return err
	}))
	return milliseconds
}
