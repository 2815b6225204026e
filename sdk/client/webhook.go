package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ErrSignature means that a webhook is not genuine, was altered or is a replay. Answer it with 401.
var ErrSignature = errors.New("the webhook has no valid signature")

// Event is the body of a webhook.
type Event struct {
	Event     string    `json:"event"` // check.blocked or check.review
	Timestamp string    `json:"timestamp"`
	Data      EventData `json:"data"`
}

// EventData is the check that an event is about.
type EventData struct {
	Query   string   `json:"query"`
	Type    string   `json:"type"`
	Verdict string   `json:"verdict"` // BLOCK or REVIEW
	Score   int      `json:"score"`
	Signals []string `json:"signals"` // codes
	Ref     string   `json:"ref"`     // the same event can arrive twice, with the same ref
}

// Webhook verifies the webhooks of one endpoint.
type Webhook struct {
	Tolerance time.Duration // how old, or how far in the future, a webhook can be

	secret string
	key    []byte // decoded from the secret
}

// NewWebhook returns a Webhook for the endpoint's secret (whsec_...).
func NewWebhook(secret string) (*Webhook, error) {
	secret = strings.TrimSpace(secret) // a file ends with a line break
	encoded := strings.TrimPrefix(secret, "whsec_")
	if encoded == "" || strings.ContainsFunc(encoded, unicode.IsControl) {
		return nil, errors.New("the webhook secret is empty or has a control character; one begins with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		key = []byte(secret) // a secret that is not base64 is used as it is
	}
	return &Webhook{Tolerance: 5 * time.Minute, secret: secret, key: key}, nil
}

// VerifyServiceSignature checks X-Service-Signature, which signs only the body, and returns the event of a request.
// Prefer Verify, which also refuses replays. Pass the body as received.
func (w *Webhook) VerifyServiceSignature(h http.Header, body []byte) (Event, error) {
	mac := hmac.New(sha256.New, []byte(w.secret)) // as displayed, with its prefix
	mac.Write(body)
	want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(header(h, "X-Service-Signature")), []byte(want)) {
		return Event{}, ErrSignature
	}
	return decodeEvent(body)
}

// Verify checks the signature and the time of a request, and returns its event. Pass the body as received: decoding and
// encoding it again would change its bytes. The error is ErrSignature, unless the body is not an event.
func (w *Webhook) Verify(h http.Header, body []byte, now time.Time) (Event, error) {
	if !w.signed(h, body, now) {
		return Event{}, ErrSignature
	}
	return decodeEvent(body)
}

// header returns the value of a header. It ignores the case of the name, which frameworks may change.
func header(h http.Header, name string) string {
	for key, values := range h {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

func decodeEvent(body []byte) (event Event, err error) {
	if err := json.Unmarshal(body, &event); err != nil {
		return event, fmt.Errorf("decoding the event: %w", err)
	}
	return event, nil
}

var seconds = regexp.MustCompile(`^[0-9]{1,12}$`)

// signed verifies the signature of Standard Webhooks 1.0. During a rotation there is a signature for each secret, and
// one match is enough.
func (w *Webhook) signed(h http.Header, body []byte, now time.Time) bool {
	id, timestamp := header(h, "webhook-id"), header(h, "webhook-timestamp")
	if !seconds.MatchString(timestamp) {
		return false
	}
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)).Abs() > w.Tolerance {
		return false // a replay
	}
	mac := hmac.New(sha256.New, w.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for signature := range strings.FieldsSeq(header(h, "webhook-signature")) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return true
		}
	}
	return false
}
