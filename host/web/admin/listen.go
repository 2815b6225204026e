package admin

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Off is the setting that turns off the admin listener.
const Off = "off"

// Listen listens on the address in setting. If it is empty, Listen uses a loopback address with the port after the
// customers' port, or with any free port if the system chose the customers' port too (anyPort). If that port is taken,
// Listen chooses a free one, and taken says why. If setting is Off, the listener is nil.
func Listen(ctx context.Context, setting string, customers net.Addr, anyPort bool) (l net.Listener, taken, err error) {
	var config net.ListenConfig
	switch setting {
	case Off:
		return nil, nil, nil
	case "":
	default:
		if l, err = config.Listen(ctx, "tcp", setting); err != nil {
			return nil, nil, fmt.Errorf("listening on %s (ASSAY_ADMIN_LISTEN): %w", setting, err)
		}
		return l, nil, nil
	}
	preset := ByDefault(customers, anyPort)
	if l, taken = config.Listen(ctx, "tcp", preset.String()); taken == nil {
		return l, nil, nil
	}
	l, err = config.Listen(ctx, "tcp", netip.AddrPortFrom(preset.Addr(), 0).String())
	if err != nil {
		return nil, nil, fmt.Errorf("listening for operators: %w", err)
	}
	return l, taken, nil
}

// ByDefault returns the address to listen on if none is set.
func ByDefault(customers net.Addr, anyPort bool) netip.AddrPort {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	tcp, ok := customers.(*net.TCPAddr)
	if !ok {
		return at
	}
	if addr := tcp.AddrPort().Addr().Unmap(); addr.IsLoopback() {
		at = netip.AddrPortFrom(addr, 0)
	}
	if port := tcp.AddrPort().Port() + 1; !anyPort { // 0 after the highest
		at = netip.AddrPortFrom(at.Addr(), port)
	}
	return at
}

// Validate checks a setting.
func Validate(setting string) error {
	if setting == "" || setting == Off {
		return nil
	}
	_, port, err := net.SplitHostPort(setting)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is neither %s nor of the form host:port", setting, Off)
	}
	return nil
}

// IsLoopback reports whether an address can be reached from this machine only.
func IsLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
