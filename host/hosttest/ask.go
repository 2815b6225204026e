package hosttest

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Ask calls a privacy endpoint, again after a refusal.
func Ask(t *testing.T, host *HostProcess, key, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	UntilAccepted(func() int {
		status, answer = AskOnce(t, host, key, method, path, body)
		return status
	})
	return status, answer
}

// AskOnce calls an endpoint, and returns what it answers, also a refusal.
func AskOnce(t *testing.T, host *HostProcess, key, method, path, body string) (
	status int, answer map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, host.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return response.StatusCode, answer
}

// Scrape returns a host's metrics, given its URL for operators.
func Scrape(ctx context.Context, admin string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// MetricOf returns a value from a page of metrics, or infinity if it is not there.
func MetricOf(page, name string) float64 {
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
				return value
			}
		}
	}
	return math.Inf(1)
}

// AwaitingOutcome is in what a host logs of a check whose outcome the database did not say in time.
const AwaitingOutcome = "waiting for the outcome"

// Logged returns what the host of a data directory has logged with a text.
func Logged(dir, text string) (lines string) {
	files, _ := filepath.Glob(filepath.Join(dir, "logs", "*"))
	for _, file := range files {
		content, _ := os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, text) {
				lines += line
			}
		}
	}
	return lines
}
