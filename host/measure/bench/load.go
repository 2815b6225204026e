// Package bench sends load to a host over HTTP and measures throughput and latency. It uses only the host's HTTP API.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Target is an endpoint and the requests to send to it.
type Target struct {
	URL    string
	Keys   []string // used in rotation; if empty, requests have no Authorization header
	Bodies [][]byte // sent in rotation
}

// Figures are the results of a measurement. Latencies are those of successful requests.
type Figures struct {
	Answered  int           `json:"answered"` // responses with status 200
	Refused   int           `json:"refused"`  // responses with status 503
	Errors    int           `json:"errors"`   // responses with status 500
	Failed    int           `json:"failed"`   // other responses, and requests without a response
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	Max       time.Duration `json:"max_ns"`

	RefusedPerSecond float64       `json:"refused_per_second"`
	RefusedP99       time.Duration `json:"refused_p99_ns"`
	SlowestRefusal   time.Duration `json:"slowest_refusal_ns"`

	Failure error `json:"-"` // why one of Errors or Failed failed; nil if none did
}

const (
	callTimeout = 10 * time.Second
	pause       = 20 * time.Millisecond // of a busy connection after a refusal
)

// Saturate keeps the given number of connections busy for d.
func Saturate(ctx context.Context, t Target, connections int, d time.Duration) (Figures, error) {
	client := t.client(connections)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var next atomic.Int64
	samples := make([]sample, connections)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range samples {
		wg.Go(func() {
			for ctx.Err() == nil {
				at := time.Now()
				err := t.call(client, int(next.Add(1)))
				samples[i].add(err, at)
				if errors.Is(err, statusError(fasthttp.StatusServiceUnavailable)) {
					select {
					case <-time.After(pause):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	wg.Wait()
	return figures(samples, time.Since(began))
}

// Offer sends rate requests per second for d, whether or not earlier ones have finished. Latency counts from the time a
// request was due, so that a stalled host cannot hide the requests it delayed.
func Offer(ctx context.Context, t Target, rate int, d time.Duration) (Figures, error) {
	// While the host stalls, requests are still sent, up to the number that can be unanswered before the first one
	// fails.
	client := t.client(rate * int(callTimeout/time.Second))
	samples := make([]sample, rate)
	began := time.Now()
	var wg sync.WaitGroup
	interval := time.Second / time.Duration(rate)
	for n := range int(d / interval) {
		due := began.Add(time.Duration(n) * interval)
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return Figures{}, ctx.Err()
			}
		}
		wg.Go(func() { samples[n%rate].add(t.call(client, n), due) })
	}
	wg.Wait()
	return figures(samples, time.Since(began))
}

func (t Target) client(connections int) *fasthttp.Client {
	return &fasthttp.Client{MaxConnsPerHost: connections, ReadTimeout: callTimeout, WriteTimeout: callTimeout,
		MaxIdemponentCallAttempts: 1}
}

func (t Target) call(client *fasthttp.Client, n int) error {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	request.SetRequestURI(t.URL)
	request.Header.SetMethod(fasthttp.MethodPost)
	request.Header.SetContentType("application/json")
	if len(t.Keys) > 0 {
		request.Header.Set("Authorization", "Bearer "+t.Keys[n%len(t.Keys)])
	}
	request.SetBodyRaw(t.Bodies[n%len(t.Bodies)])
	if err := client.DoTimeout(request, response, callTimeout); err != nil {
		return err
	}
	if code := response.StatusCode(); code != fasthttp.StatusOK {
		return fmt.Errorf("%w: %.200s", statusError(code), response.Body())
	}
	return nil
}

// statusError is the status of a response other than 200.
type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }

// sample collects the results of one worker.
type sample struct {
	mu             sync.Mutex
	answers        []time.Duration
	refusals       []time.Duration
	errors, failed int
	err            error // of a refusal or of a failure
	failure        error
}

// add counts a call that was due at the given time.
func (s *sample) add(err error, due time.Time) {
	took := time.Since(due)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.answers = append(s.answers, took)
		return
	case errors.Is(err, statusError(fasthttp.StatusServiceUnavailable)):
		s.refusals = append(s.refusals, took)
	case errors.Is(err, statusError(fasthttp.StatusInternalServerError)):
		s.errors, s.failure = s.errors+1, err
	default:
		s.failed, s.failure = s.failed+1, err
	}
	s.err = err
}

// figures combines samples. It fails if no request succeeded.
func figures(samples []sample, took time.Duration) (Figures, error) {
	var f Figures
	var answers, refusals []time.Duration
	var last error
	for i := range samples {
		answers = append(answers, samples[i].answers...)
		refusals = append(refusals, samples[i].refusals...)
		f.Errors += samples[i].errors
		f.Failed += samples[i].failed
		last = cmp.Or(samples[i].err, last)
		f.Failure = cmp.Or(samples[i].failure, f.Failure)
	}
	if len(answers) == 0 {
		return f, fmt.Errorf("no request succeeded: %w", last)
	}
	slices.Sort(answers)
	f.Answered, f.Refused = len(answers), len(refusals)
	f.PerSecond = float64(len(answers)) / took.Seconds()
	f.P50, f.P99, f.Max = answers[len(answers)/2], answers[len(answers)*99/100], answers[len(answers)-1]
	if len(refusals) > 0 {
		slices.Sort(refusals)
		f.RefusedPerSecond = float64(len(refusals)) / took.Seconds()
		f.RefusedP99, f.SlowestRefusal = refusals[len(refusals)*99/100], refusals[len(refusals)-1]
	}
	return f, nil
}

// Echo responds to every POST on l with the same body until stop is called. It measures only the HTTP library.
func Echo(l net.Listener, body []byte) (stop func() error) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/*", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(body)
	})
	served := make(chan error, 1)
	go func() { served <- app.Listener(l) }()
	return func() error {
		if err := app.Shutdown(); err != nil {
			return err
		}
		return <-served
	}
}
