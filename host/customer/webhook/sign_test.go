package webhook

import (
	"net/http"
	"testing"
	"time"

	"assay/registry/expect"
)

// The expected values were computed with Python's hmac module. The first one is from the tests of the Standard Webhooks
// libraries.
func TestSign(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "Standard Webhooks", standardSignature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)),
		"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	at := time.Unix(1_800_000_000, 900_000_000)
	d := newDelivery("https://receiver.example")
	got := http.Header{}
	sign(got, d, at)
	want := http.Header{
		"X-Service-Event":     {"check.blocked"},
		"X-Service-Signature": {"sha256=012d96f639f336ff7e2344a232a5011b8483eabd234eca2043fed85bdb41a7f6"},
		"X-Service-Sequence":  {"17"},
		"X-Service-Attempt":   {"2"},
		"Webhook-Id":          {"chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"},
		"Webhook-Timestamp":   {"1800000000"},
		"Webhook-Signature":   {"v1,W1jLYWowz5YMzEGu4bdtrE/N5itM+YxtenBeAK/FCYw="},
	}
	expect.NoDiff(t, "headers", want, got)
	d.Secrets = []string{"whsec_c2VjcmV0IHR3bw==", "whsec_c2VjcmV0IG9uZQ=="}
	got = http.Header{}
	sign(got, d, at)
	want.Set("X-Service-Signature", "sha256=3587eecb67404904052516bf96681c8c603237a262b038c4ee6df586d489f584")
	want.Set("Webhook-Signature", "v1,YSqtC9crfDnDJ6FkkuNcysPVWcHqYHt3wBnmO6QVheY= "+
		"v1,W1jLYWowz5YMzEGu4bdtrE/N5itM+YxtenBeAK/FCYw=")
	expect.NoDiff(t, "headers with two secrets", want, got)
}
