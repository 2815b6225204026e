package resolver

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxUDPSize avoids IP fragments, which an attacker could forge (DNS Flag Day 2020; RFC 9715).
	maxUDPSize = 1232
	// maxTCPSize is far above the size of legitimate responses to these queries.
	maxTCPSize = 16 << 10
	// maxMismatches limits the datagrams that one attempt ignores because they do not match its query.
	maxMismatches = 32
)

var (
	errMismatch          = errors.New("the response does not match the query")
	errTooManyMismatches = errors.New("too many responses do not match the query")
	errTooLarge          = fmt.Errorf("the response is larger than %d bytes", maxTCPSize)
	errCaseMismatch      = errors.New("the response does not repeat the capitals of the query's name")
	errTruncated         = errors.New("the response is truncated or malformed")
)

// exchange sends a query, retries it once after RetryAfter or after a failure, and returns the first conclusive
// response. If there is none, it returns the first response, or an error if there was no response at all. It records in
// f when the first query was sent.
func (r *Resolver) exchange(ctx context.Context, f *flight, q Question) (*dns.Msg, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		m   *dns.Msg
		err error
	}
	const attempts = 2
	results := make(chan result, attempts)
	started, ended := 0, 0
	began := r.cfg.Now()
	start := func(due time.Time) {
		server := f.trust.servers[started%len(f.trust.servers)]
		started++
		r.running.Go(func() {
			m, err := attempt(ctx, server, q, f.recordSent(r.cfg.Now, due))
			results <- result{m, err}
		})
	}
	start(time.Time{})
	retry := time.NewTimer(r.cfg.RetryAfter)
	defer retry.Stop()
	var best result
	for {
		select {
		case got := <-results:
			ended++
			if got.err == nil && conclusive(got.m) {
				return got.m, nil
			}
			if best.m == nil {
				best = got
			}
			// The same server would repeat its response, but may answer after a lost packet.
			if started < attempts && (got.err != nil || len(f.trust.servers) > 1) {
				f.followed.Store(true)
				start(r.cfg.Now())
			} else if ended == started {
				return best.m, best.err
			}
		case <-retry.C:
			if started < attempts {
				start(began.Add(r.cfg.RetryAfter))
			}
		case <-ctx.Done():
			if best.m != nil {
				return best.m, nil
			}
			return nil, errors.Join(ctx.Err(), best.err)
		}
	}
}

// conclusive reports whether m needs no second opinion from another server.
func conclusive(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError }

// attempt queries one server until ctx ends. If the server does not support EDNS, it repeats the query without EDNS
// (RFC 6891 section 7). It calls sent with the connection of each query, and with nil before repeating one.
func attempt(ctx context.Context, server string, q Question, sent func(net.Conn)) (m *dns.Msg, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser reads untrusted bytes
			m, err = nil, fmt.Errorf("parsing the response: panic: %v", r)
		}
	}()
	m, err = query(ctx, server, q, true, sent)
	if err == nil && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) {
		sent(nil)
		return query(ctx, server, q, false, sent)
	}
	return m, err
}

// query uses UDP first. It repeats the query over TCP, which an off-path attacker cannot forge, if the response is
// truncated or does not repeat the capitals of the name.
func query(ctx context.Context, server string, q Question, edns bool, sent func(net.Conn)) (*dns.Msg, error) {
	m, err := roundTrip(ctx, "udp", server, q, edns, sent)
	if errors.Is(err, errTruncated) || errors.Is(err, errCaseMismatch) {
		sent(nil)
		return roundTrip(ctx, "tcp", server, q, edns, sent)
	}
	return m, err
}

// roundTrip sends one query over "udp" or "tcp". An off-path attacker has to guess its source port and ID (RFC 5452)
// together with the random capitals of its name (draft-vixie-dnsext-dns0x20).
func roundTrip(
	ctx context.Context, network, server string, q Question, edns bool, sent func(net.Conn),
) (*dns.Msg, error) {
	var entropy [2 + 32]byte
	rand.Read(entropy[:])
	msg := &dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id:                binary.BigEndian.Uint16(entropy[:]),
			RecursionDesired:  true,
			AuthenticatedData: true, // requests the AD bit in the response (RFC 6840 section 5.7)
		},
		Question: []dns.Question{{
			Name: randomizeCase(q.Name, entropy[2:]), Qtype: uint16(q.Type), Qclass: dns.ClassINET,
		}},
	}
	if edns {
		msg.SetEdns0(maxUDPSize, false)
	}
	packed, err := msg.Pack()
	if err != nil {
		return nil, fmt.Errorf("encoding the query: %w", err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	receive := receiveUDP
	if network == "tcp" {
		length := binary.BigEndian.AppendUint16(nil, uint16(len(packed)))
		packed, receive = append(length, packed...), receiveTCP
		sent(conn)
	}
	if _, err := conn.Write(packed); err != nil {
		return nil, err
	}
	if network == "udp" {
		sent(conn)
	}
	return receive(conn, msg)
}

// randomizeCase capitalizes the letters of a lower-case name whose bit in random is 1. random has a bit for each byte.
func randomizeCase(name string, random []byte) string {
	out := []byte(name)
	for i, c := range out {
		if c >= 'a' && c <= 'z' && random[i/8]>>(i%8)&1 == 1 {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

// receiveUDP returns the response to a query that was sent.
func receiveUDP(conn net.Conn, msg *dns.Msg) (*dns.Msg, error) {
	buffer := make([]byte, 2*maxUDPSize)
	for range maxMismatches {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		m, err := parse(buffer[:n], msg)
		if errors.Is(err, errMismatch) {
			continue // the genuine response may follow
		}
		if err == nil && m.Question[0].Name != msg.Question[0].Name {
			return nil, errCaseMismatch
		}
		return m, err
	}
	return nil, errTooManyMismatches
}

func receiveTCP(conn net.Conn, msg *dns.Msg) (*dns.Msg, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint16(length[:]))
	if size > maxTCPSize {
		return nil, errTooLarge
	}
	buffer := make([]byte, size)
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return nil, err
	}
	return parse(buffer, msg)
}

// headerBytes is the length of a message's header (RFC 1035 section 4.1.1).
const headerBytes = 12

// parse decodes the response to a query. It returns errMismatch if the ID, type, class or case-folded name differ from
// the query's, and errTruncated if the response is truncated or malformed.
func parse(data []byte, msg *dns.Msg) (*dns.Msg, error) {
	if len(data) < headerBytes || binary.BigEndian.Uint16(data) != msg.Id {
		return nil, errMismatch
	}
	m := new(dns.Msg)
	err := m.Unpack(data)
	if !m.Response || m.Opcode != dns.OpcodeQuery || len(m.Question) != 1 {
		return nil, errMismatch
	}
	got, want := m.Question[0], msg.Question[0]
	if got.Qtype != want.Qtype || got.Qclass != want.Qclass || !strings.EqualFold(got.Name, want.Name) {
		return nil, errMismatch
	}
	if m.Truncated || err != nil {
		return nil, errTruncated
	}
	return m, nil
}
