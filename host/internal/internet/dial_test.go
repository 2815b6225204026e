package internet

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestGuardedDial(t *testing.T) {
	t.Parallel()
	dial := GuardedDial(expect.Value(url.Parse("http://127.0.0.1:1234/rdap"))(t), nil)
	for _, address := range []string{
		"127.0.0.1:443", "127.0.0.1:1235", "[::1]:443", "[::ffff:127.0.0.1]:443", "10.0.0.1:443", "169.254.169.254:443",
		"[fd00:ec2::254]:443",
		"100.64.0.1:443", "0.0.0.0:443", "[64:ff9b::7f00:1]:443", "93.184.215.14:80", "93.184.215.14:22",
		"localhost:443",
	} {
		conn, err := dial(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		var refused *net.OpError
		expect.That(t, err != nil && errors.As(err, &refused) && strings.Contains(err.Error(), "not a public address"),
			"dial(%s) = %v, want a refusal", address, err)
	}
}
