package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// succeed notes in the data directory that a host, by its ID in the fleet, runs there, until the returned function is
// called. If the host that ran there before was killed, succeed takes it out of the fleet: whoever changes the lineup
// would wait for it until it is silent, and so would a start with newer built-in layers.
//
// A lock on the file says whether that host still runs, because the lock ends with its process. A file that was copied
// from another machine says nothing.
func (b *backend) succeed(ctx context.Context, cfg *Config, id string) (leave func() error, err error) {
	file, err := os.OpenFile(cfg.path("host"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("noting that a host runs: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("noting that a host runs: %w", err), file.Close())
		}
	}()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) { // another host runs in this folder
		return file.Close, nil
	}
	if err != nil {
		return nil, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	if before, ok := strings.CutSuffix(string(text), " "+machine+"\n"); ok {
		if err := b.store.RemoveHost(ctx, before); err != nil {
			return nil, err
		}
	}
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	_, err = file.WriteAt([]byte(id+" "+machine+"\n"), 0)
	return func() error {
		// A child process between fork and exec shares the open file, and so the lock.
		return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
	}, err
}
