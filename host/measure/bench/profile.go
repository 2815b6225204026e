package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// PartTime is the processor time that a part of the host used.
type PartTime struct {
	Part string
	Time time.Duration
}

// The parts of a host, as the columns of a profile.
const (
	partGuest      = "guest code"
	partSandbox    = "sandbox"
	partFacts      = "facts"
	partCheck      = "check and fusion"
	partLedger     = "ledger"
	partMetrics    = "metrics"
	partLogs       = "logs"
	partHTTP       = "HTTP"
	partCollection = "garbage collection"
	partRest       = "the rest"
)

// owners lists which part of the host a function belongs to, by the beginning of its name. The first match counts.
var owners = []struct{ prefix, part string }{
	{"runtime._ExternalCode", partGuest}, // code that Go did not compile
	{"github.com/tetratelabs/wazero/internal/engine/", partGuest},
	{"assay/host/sandbox", partSandbox},
	{"assay/host/facts", partFacts},
	{"assay/host/telemetry.(*Observer)", partMetrics},
	{"assay/host/telemetry.(*Metrics)", partMetrics},
	{"assay/host/telemetry", partLogs},
	{"github.com/prometheus/", partMetrics},
	{"log/slog", partLogs},
	{"gopkg.in/natefinch/lumberjack", partLogs},
	{"assay/host/web/api.(*Server).log", partLogs},
	{"assay/host/check", partCheck},
	{"assay/host/entity", partCheck},
	{"assay/host/store.(*Ledger)", partLedger},
	{"assay/host/audit", partLedger},
	{"assay/host/web/api", partHTTP},
	{"github.com/gofiber/fiber", partHTTP},
	{"github.com/valyala/fasthttp", partHTTP},
	{"runtime.gcBgMarkWorker", partCollection},
	{"runtime.bgsweep", partCollection},
	{"runtime.bgscavenge", partCollection},
}

// Attribute divides the samples of a host's processor profile among the host's parts. A sample belongs to the innermost
// function that has an owner. Samples of the store that no part asked for belong to the ledger. The result is sorted,
// largest first.
func Attribute(r io.Reader) ([]PartTime, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, fmt.Errorf("reading profile: %w", err)
	}
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Unit == "nanoseconds" })
	if value < 0 {
		return nil, fmt.Errorf("reading profile: it holds no processor time")
	}
	times := map[string]time.Duration{}
	for _, s := range p.Sample {
		times[partOf(s)] += time.Duration(s.Value[value])
	}
	var parts []PartTime
	for part, t := range times {
		parts = append(parts, PartTime{part, t})
	}
	slices.SortFunc(parts, func(a, b PartTime) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Part, b.Part))
	})
	return parts, nil
}

// partOf returns the part that a sample belongs to.
func partOf(s *profile.Sample) string {
	part := partRest
	for _, location := range s.Location { // innermost first
		for _, line := range location.Line {
			if line.Function == nil {
				continue
			}
			name := line.Function.Name
			if strings.HasPrefix(name, "assay/host/store") {
				part = partLedger
			}
			for _, o := range owners {
				if strings.HasPrefix(name, o.prefix) {
					return o.part
				}
			}
		}
	}
	return part
}
