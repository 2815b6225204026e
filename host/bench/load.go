// Package bench sends load to a host over HTTP and measures throughput and latency. It uses only the host's HTTP API.
package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Target is an endpoint and the requests to send to it.
type Target struct {
	URL    string
	Key    string   // if empty, requests have no Authorization header
	Bodies [][]byte // sent in rotation
}

// Figures are the results of a measurement. Latencies are those of successful requests.
type Figures struct {
	Answered  int           `json:"answered"` // responses with status 200
	Failed    int           `json:"failed"`
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	Max       time.Duration `json:"max_ns"`
}

const callTimeout = 10 * time.Second

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
				samples[i].add(t.call(client, int(next.Add(1))), at)
			}
		})
	}
	wg.Wait()
	return figures(samples, time.Since(began))
}

// Offer sends rate requests per second for d, whether or not earlier ones have finished. Latency counts from the time a
// request was due, so that a stalled host cannot hide the requests it delayed.
func Offer(ctx context.Context, t Target, rate int, d time.Duration) (Figures, error) {
	client := t.client(rate)
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
	if t.Key != "" {
		request.Header.Set("Authorization", "Bearer "+t.Key)
	}
	request.SetBodyRaw(t.Bodies[n%len(t.Bodies)])
	if err := client.DoTimeout(request, response, callTimeout); err != nil {
		return err
	}
	if code := response.StatusCode(); code != fasthttp.StatusOK {
		return fmt.Errorf("status %d: %.200s", code, response.Body())
	}
	return nil
}

// sample collects the results of one worker.
type sample struct {
	mu        sync.Mutex
	latencies []time.Duration
	failed    int
	err       error
}

// add counts a call that was due at the given time.
func (s *sample) add(err error, due time.Time) {
	took := time.Since(due)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed++
		s.err = err
		return
	}
	s.latencies = append(s.latencies, took)
}

// figures combines samples. It fails if no request succeeded.
func figures(samples []sample, took time.Duration) (Figures, error) {
	var f Figures
	var all []time.Duration
	var last error
	for i := range samples {
		all = append(all, samples[i].latencies...)
		f.Failed += samples[i].failed
		if samples[i].err != nil {
			last = samples[i].err
		}
	}
	if len(all) == 0 {
		return f, fmt.Errorf("no request succeeded: %w", last)
	}
	slices.Sort(all)
	f.Answered = len(all)
	f.PerSecond = float64(len(all)) / took.Seconds()
	f.P50, f.P99, f.Max = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	return f, nil
}
