// Command receiver-go receives webhooks. It verifies the signature and the timestamp, ignores duplicates, and responds
// before it processes an event.
//
//	ASSAY_WEBHOOK_SECRET=whsec_... LISTEN=127.0.0.1:9000 go run ./examples/receiver-go
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event is the body of a webhook.
type Event struct {
	Event     string `json:"event"` // check.blocked or check.review
	Timestamp string `json:"timestamp"`
	Data      struct {
		Query   string   `json:"query"`
		Type    string   `json:"type"`
		Verdict string   `json:"verdict"`
		Score   int      `json:"score"`
		Signals []string `json:"signals"`
		Ref     string   `json:"ref"`
	} `json:"data"`
}

const (
	maxBody = 64 << 10
	maxAge  = 5 * time.Minute
)

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("ASSAY_WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("ASSAY_WEBHOOK_SECRET must be a secret of the form whsec_...")
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:9000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on http://" + listener.Addr().String())
	server := &http.Server{Handler: &receiver{key: key}, ReadTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}

type receiver struct {
	key  []byte
	seen sync.Map // ids of processed events; use durable storage in production
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if !verify(rc.key, r.Header, body, time.Now()) {
		http.Error(w, "invalid signature", http.StatusUnauthorized)
		return
	}
	var event Event
	if err := json.Unmarshal(body, &event); err != nil {
		http.Error(w, "invalid event", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	// Delivery is at least once: an event is sent again if the response was lost.
	if _, again := rc.seen.LoadOrStore(r.Header.Get("webhook-id"), true); !again {
		fmt.Println(event.Event, event.Data.Verdict, event.Data.Query, event.Data.Score, event.Data.Ref)
	}
}

// verify reports whether a request has a valid Standard Webhooks signature over its id, timestamp and raw body. After a
// rotation there is one signature for each secret, and one match is enough.
func verify(key []byte, h http.Header, body []byte, now time.Time) bool {
	timestamp := h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxAge {
		return false // invalid, or a replay
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("webhook-id"), timestamp, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for signature := range strings.FieldsSeq(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return true
		}
	}
	return false
}
