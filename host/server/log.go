package server

import (
	"context"
	"time"

	"assay/host/telemetry"
)

// unwrittenRemedy is the remedy for files in the data directory that cannot be written.
const unwrittenRemedy = "Free space in the data directory, and make sure that the host may write to it. The database " +
	"records every check that is answered."

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
		Collect:  func(m *telemetry.Metrics) { m.WatchFile("log", file.Unwritten) },
		Problems: []problems{{file.Unwritten, unwrittenRemedy}},
		Jobs: jobs{localJobs: {{Name: "rotate the log file", Every: jobInterval, Run: func(context.Context) error {
			return file.RotateIfDue(time.Now())
		}}}},
		Close: func() error {
			if h.seat != nil { // else the log is another host's
				log.Info("stopped")
			}
			return file.Close()
		},
	}, nil
}
