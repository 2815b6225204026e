package store

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence ends a TCP connection whose data is not acknowledged within maxSilence. It is a net.Dialer's Control.
func boundSilence(network, _ string, conn syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil // a Unix domain socket
	}
	failed := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(maxSilence.Milliseconds()))
	})
	if failed != nil {
		return failed
	}
	return err
}
