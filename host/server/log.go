package server

import (
	"context"
	"log/slog"
	"time"

	"assay/host/telemetry"
)

// logFile is the file of the host's log, which is closed last.
type logFile struct {
	*telemetry.LogFile
	log *slog.Logger
}

var (
	_ worker = logFile{}
	_ closer = logFile{}
)

func openLog(_ context.Context, h *host) (part, error) {
	if err := h.cfg.MakeDataDir(); err != nil {
		return nil, err
	}
	log, file, err := telemetry.OpenLog(h.cfg.Path("logs"), h.terminal.Err)
	if err != nil {
		return nil, err
	}
	h.log = log
	return logFile{file, log}, nil
}

// Jobs implements worker.
func (f logFile) Jobs() jobs {
	return jobs{localJobs: {{Name: "rotate the log file", Every: jobInterval, Run: func(context.Context) error {
		return f.RotateIfDue(time.Now())
	}}}}
}

// Close implements closer.
func (f logFile) Close() error {
	f.log.Info("stopped")
	return f.LogFile.Close()
}
