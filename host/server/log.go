package server

import (
	"context"
	"time"

	"assay/host/telemetry"
)

func openLog(_ context.Context, h *host) (part, error) {
	if err := h.cfg.MakeDataDir(); err != nil {
		return part{}, err
	}
	log, file, err := telemetry.OpenLog(h.cfg.Path("logs"), h.terminal.Err)
	if err != nil {
		return part{}, err
	}
	h.log = log
	return part{
		Jobs: jobs{localJobs: {{Name: "rotate the log file", Every: jobInterval, Run: func(context.Context) error {
			return file.RotateIfDue(time.Now())
		}}}},
		Close: func() error {
			log.Info("stopped")
			return file.Close()
		},
	}, nil
}
