package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sign sets the headers that identify an attempt and authenticate it.
//
// X-Service-Signature (contract section 5) signs only the body; its key is the secret as displayed, prefix included.
// The header holds one value, so a rotated secret begins to sign at the moment that its owner picked. The webhook-*
// headers follow Standard Webhooks 1.0: one signature per secret over id, time and body, keyed with the bytes that the
// secret encodes in base64. Each attempt has a new timestamp, so receivers can reject replays.
func sign(h http.Header, d Delivery, at time.Time) {
	h.Set("X-Service-Event", d.Event)
	h.Set("X-Service-Signature", bodySignature(d.Secrets[0], d.Body))
	h.Set("X-Service-Sequence", strconv.FormatInt(d.Sequence, 10))
	h.Set("X-Service-Attempt", strconv.Itoa(d.Attempt))

	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(d.Secrets))
	for i, secret := range d.Secrets {
		signatures[i] = standardSignature(secret, d.Ref, timestamp, d.Body)
	}
	h.Set("webhook-id", d.Ref)
	h.Set("webhook-timestamp", timestamp)
	h.Set("webhook-signature", strings.Join(signatures, " "))
}

func bodySignature(secret string, body []byte) string {
	return "sha256=" + hex.EncodeToString(mac([]byte(secret), string(body)))
}

func standardSignature(secret, id, timestamp string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		key = []byte(secret) // a secret that is not base64 is used as it is
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id, ".", timestamp, ".", string(body)))
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}
