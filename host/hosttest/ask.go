package hosttest

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/registry/expect"
)

// Send makes a request and returns the answer. It tries again after a refusal by a busy host. header alternates names
// and values.
func Send(t testing.TB, host *HostProcess, key, method, path, body string, header ...string) (status int, text string) {
	t.Helper()
	UntilAccepted(func() int {
		status, text = SendOnce(t, host, key, method, path, body, header...)
		return status
	})
	return status, text
}

// SendOnce is Send without retries. With an empty key the request has no Authorization.
func SendOnce(t testing.TB, host *HostProcess, key, method, path, body string, header ...string) (
	status int, text string) {
	t.Helper()
	return request(t, key, method, host.URL+path, body, header...)
}

func request(t testing.TB, key, method, url, body string, header ...string) (status int, text string) {
	t.Helper()
	status, text, err := exchange(t.Context(), http.DefaultClient, key, method, url, body, header...)
	expect.NoError(t, err)
	return status, text
}

func exchange(ctx context.Context, client *http.Client, key, method, url, body string, header ...string) (
	status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for pair := range slices.Chunk(header, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// Ask is Send for an answer that is an object.
func Ask(t *testing.T, host *HostProcess, key, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	status, text := Send(t, host, key, method, path, body)
	err := json.Unmarshal([]byte(text), &answer)
	expect.Must(t, err == nil, "%s: %v", text, err)
	return status, answer
}

// Scrape returns a host's metrics, given its URL for operators.
func Scrape(ctx context.Context, admin string) (string, error) {
	_, text, err := exchange(ctx, http.DefaultClient, "", http.MethodGet, admin+"/metrics", "")
	return text, err
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

// AwaitingOutcome is logged for a check whose outcome the database did not report in time.
const AwaitingOutcome = "waiting for the outcome"

// Logged returns the log lines that contain a text, of the host of a data directory.
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
