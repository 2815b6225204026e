// Command client-go checks an email address before a signup: it accepts on allow, asks for manual review on review, and
// rejects on block.
//
//	ASSAY_URL=http://127.0.0.1:8080 ASSAY_KEY=assay_... go run ./examples/client-go jane@example.com
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Result holds the fields of the response that a signup needs.
type Result struct {
	Score   int      `json:"score"` // 0 to 100
	Verdict string   `json:"verdict"`
	Signals []string `json:"signals"`
	Ref     string   `json:"ref"`

	Error   string `json:"error"`    // set instead if the status is not 200
	ResetAt string `json:"reset_at"` // with status 429: when the quota is reset
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client-go EMAIL")
		os.Exit(2)
	}
	result, err := check(context.Background(), os.Getenv("ASSAY_URL"), os.Getenv("ASSAY_KEY"), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch result.Verdict {
	case "allow":
		fmt.Println("welcome")
	case "review":
		fmt.Println("needs manual review:", result.Signals)
	case "block":
		fmt.Println("rejected:", result.Signals, "reference", result.Ref)
	}
}

// check scores an email address. Its timeout is short: a signup should rather proceed without a score than wait.
func check(ctx context.Context, url, key, email string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]string{"email": email})
	if err != nil {
		return Result{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/check", bytes.NewReader(body))
	if err != nil {
		return Result{}, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Result{}, err
	}
	defer response.Body.Close()
	var result Result
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
		return Result{}, fmt.Errorf("decoding response: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return Result{}, fmt.Errorf("status %d: %s", response.StatusCode, result.Error)
	}
	return result, nil
}
