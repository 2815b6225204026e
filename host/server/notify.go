package server

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// stopSlack is the time that a host may need to stop after it has drained: requests, webhooks and records in progress,
// and a private Postgres.
const stopSlack = 70 * time.Second

// notifyReady tells systemd that the host is ready.
func notifyReady(log *slog.Logger) { tellManager(log, "READY=1") }

// notifyStopping tells systemd that the host is stopping and drains first, so that a drain that takes longer than
// TimeoutStopSec is not cut off.
func notifyStopping(log *slog.Logger, drain time.Duration) {
	tellManager(log, fmt.Sprintf("STOPPING=1\nEXTEND_TIMEOUT_USEC=%d", (drain+stopSlack).Microseconds()))
}

// tellManager sends a message to the service manager that started this process, as in sd_notify(3), if it wants to be
// notified.
func tellManager(log *slog.Logger, message string) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	conn, err := net.Dial("unixgram", address)
	if err == nil {
		_, err = conn.Write([]byte(message))
		_ = conn.Close()
	}
	if err != nil {
		log.Warn("the service manager cannot be notified", "error", err)
	}
}
