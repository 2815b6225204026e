//go:build !linux

package store

import "syscall"

// boundSilence does nothing, because the system has no such option.
func boundSilence(_, _ string, _ syscall.RawConn) error { return nil }
