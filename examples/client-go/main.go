// Command client-go checks an email address before a signup: it accepts on allow, asks for manual review on review, and
// rejects on block.
//
//	ASSAY_URL=http://127.0.0.1:8080 ASSAY_KEY=assay_... go run ./examples/client-go jane@example.com
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"assay.example/client"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client-go EMAIL")
		os.Exit(2)
	}
	assay := client.New(os.Getenv("ASSAY_URL"), os.Getenv("ASSAY_KEY"))
	// The timeout is short: a signup should rather proceed without a score than wait.
	assay.Timeout = 2 * time.Second
	result, err := assay.Check(context.Background(), client.Request{Email: os.Args[1]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch result.Verdict {
	case client.Allow:
		fmt.Println("welcome")
	case client.Review:
		fmt.Println("needs manual review:", result.Signals)
	case client.Block:
		fmt.Println("rejected:", result.Signals, "reference", result.Ref)
	}
}
