//go:build linux || darwin

package postgres

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// The interval between checks of a supervised Postgres, and the pause after it could not be started.
const (
	superviseEvery = time.Second
	supervisePause = 5 * time.Second
)

// supervise starts Postgres again whenever it has ended, until ctx ends. It keeps the port, which this process uses.
func (c *Cluster) supervise(ctx context.Context) {
	wait := superviseEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = superviseEvery
		if pid, _, err := running(c.data); err == nil && pid != 0 {
			c.problem.Store(nil)
			continue
		}
		c.report("the private Postgres has ended, and is started again")
		if err := c.restart(ctx); err != nil && ctx.Err() == nil {
			c.report("the private Postgres has ended and does not start: " + err.Error())
			wait = supervisePause
		}
	}
}

func (c *Cluster) report(problem string) {
	c.problem.Store(&problem)
	c.log.Error(problem)
}

// Problems returns a sentence if Supervise has to start Postgres again.
func (c *Cluster) Problems() []string {
	if c == nil {
		return nil
	}
	if p := c.problem.Load(); p != nil {
		return []string{*p}
	}
	return nil
}

// restart starts Postgres, unless another process has. It continues for up to stopBound after ctx has ended: an
// interrupted start would end a Postgres that other processes use.
func (c *Cluster) restart(ctx context.Context) error {
	ended := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ended, func() { time.AfterFunc(stopBound, cancel) })()
	start, err := openLock(c.path("start"))
	if err != nil {
		return err
	}
	defer start.release()
	if err := start.take(ctx, syscall.LOCK_EX, nil); err != nil {
		return err
	}
	again := &Cluster{dir: c.dir, data: c.data, account: c.account, version: c.version, record: c.record,
		config: c.config, log: c.log}
	again.config.Progress = func(string) {} // which only Open calls
	adopted, err := again.adopt(ctx)
	if err == nil && !adopted {
		err = again.start(ctx)
	}
	if err == nil && again.port != c.port {
		err = fmt.Errorf("it listens on port %d now, and this host uses %d: restart the host", again.port, c.port)
	}
	return err
}
