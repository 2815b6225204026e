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

	"assay/host/store"
)

// sign sets the headers that say what an attempt is and prove who made it.
//
// X-Service-Signature is that of spec section 5: keyed with the current secret as it was shown, over the body alone. It
// has room for one value, so while a replaced secret still signs, X-Service-Signature-Previous carries the newest
// one's. The webhook-* headers are those of Standard Webhooks 1.0: keyed with the bytes that the secret is the base64
// of, over id, time and body, one signature for each secret. They are renewed with every attempt, so a receiver can
// refuse what is replayed.
func sign(h http.Header, d store.Delivery, at time.Time) {
	h.Set("X-Service-Event", d.Event)
	h.Set("X-Service-Signature", bodySignature(d.Secrets[0], d.Body))
	if len(d.Secrets) > 1 {
		h.Set("X-Service-Signature-Previous", bodySignature(d.Secrets[1], d.Body))
	}
	h.Set("X-Service-Sequence", strconv.FormatInt(d.Sequence, 10))
	h.Set("X-Service-Attempt", strconv.Itoa(d.Number))

	stamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(d.Secrets))
	for i, secret := range d.Secrets {
		signatures[i] = standardSignature(secret, d.Ref, stamp, d.Body)
	}
	h.Set("webhook-id", d.Ref)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", strings.Join(signatures, " "))
}

func bodySignature(secret string, body []byte) string {
	return "sha256=" + hex.EncodeToString(mac([]byte(secret), string(body)))
}

func standardSignature(secret, id, stamp string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		key = []byte(secret) // not of this host's making
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id, ".", stamp, ".", string(body)))
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}
