// Command receiver-go receives webhooks. It verifies the signature and the timestamp, ignores duplicates, and responds
// before it processes an event.
//
//	ASSAY_WEBHOOK_SECRET=whsec_... LISTEN=127.0.0.1:9000 go run ./examples/receiver-go
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"assay.example/client"
)

const maxBody = 64 << 10

func main() {
	webhook, err := client.NewWebhook(os.Getenv("ASSAY_WEBHOOK_SECRET"))
	if err != nil {
		log.Fatalf("ASSAY_WEBHOOK_SECRET: %v", err)
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:9000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on http://" + listener.Addr().String())
	server := &http.Server{Handler: &receiver{webhook: webhook}, ReadTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}

type receiver struct {
	webhook *client.Webhook
	seen    sync.Map // ids of processed events; use durable storage in production
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	event, err := rc.webhook.Verify(r.Header, body, time.Now())
	if errors.Is(err, client.ErrSignature) {
		http.Error(w, "invalid signature", http.StatusUnauthorized)
		return
	}
	if err != nil {
		http.Error(w, "invalid event", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	// Delivery is at least once: an event is sent again if the response was lost.
	if _, again := rc.seen.LoadOrStore(r.Header.Get("webhook-id"), true); !again {
		fmt.Println(event.Event, event.Data.Verdict, event.Data.Query, event.Data.Score, event.Data.Ref)
	}
}
