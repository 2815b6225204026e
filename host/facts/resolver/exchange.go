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
	udpSize = 1232     // fits every path without fragments, which could be forged (DNS flag day 2020, RFC 9715)
	tcpSize = 16 << 10 // honest answers to what is asked here are far smaller
	maxJunk = 32       // datagrams that do not belong to the question, before the attempt ends
)

var (
	errJunk      = errors.New("too many answers that do not belong to the question")
	errLarge     = fmt.Errorf("the answer is larger than %d bytes", tcpSize)
	errForeign   = errors.New("the answer does not belong to the question")
	errRespelt   = errors.New("the answer spells the name in another way")
	errTruncated = errors.New("the answer is cut off or broken")
)

// exchange sends a question, once more after a while or when the first attempt failed, and returns the first useful
// answer.
func (r *Resolver) exchange(ctx context.Context, q Question) (*dns.Msg, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		m   *dns.Msg
		err error
	}
	const attempts = 2
	results := make(chan result, attempts)
	started, ended := 0, 0
	start := func() {
		server := r.cfg.Servers[started%len(r.cfg.Servers)]
		started++
		r.running.Go(func() {
			m, err := attempt(ctx, server, q)
			results <- result{m, err}
		})
	}
	start()
	again := time.NewTimer(r.cfg.Patience)
	defer again.Stop()
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
			// The same server would only say the same again; one that did not answer at all may have lost the packet.
			if started < attempts && (got.err != nil || len(r.cfg.Servers) > 1) {
				start()
			} else if ended == started {
				return best.m, best.err
			}
		case <-again.C:
			if started < attempts {
				start()
			}
		case <-ctx.Done():
			if best.m != nil {
				return best.m, nil
			}
			return nil, errors.Join(ctx.Err(), best.err)
		}
	}
}

// conclusive says whether another server could not know better.
func conclusive(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError }

// attempt asks one server, without extensions when it knows none (RFC 6891 section 7). It returns when ctx ends.
func attempt(ctx context.Context, server string, q Question) (m *dns.Msg, err error) {
	defer func() {
		if r := recover(); r != nil { // bytes from anywhere go through the parser
			m, err = nil, fmt.Errorf("reading the answer: panic: %v", r)
		}
	}()
	m, err = ask(ctx, server, q, true)
	if err == nil && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) {
		return ask(ctx, server, q, false)
	}
	return m, err
}

// ask asks by UDP, and by TCP when the answer does not fit or does not repeat the name letter by letter: what comes by
// TCP cannot be forged from off the path.
func ask(ctx context.Context, server string, q Question, extended bool) (*dns.Msg, error) {
	m, err := send(ctx, "udp", server, q, extended)
	if errors.Is(err, errTruncated) || errors.Is(err, errRespelt) {
		return send(ctx, "tcp", server, q, extended)
	}
	return m, err
}

// send asks one server over one network, from a port of its own with a random number and random capitals: what a forger
// off the path would have to guess together (RFC 5452; draft-vixie-dnsext-dns0x20).
func send(ctx context.Context, network, server string, q Question, extended bool) (*dns.Msg, error) {
	var entropy [2 + 32]byte
	rand.Read(entropy[:])
	request := &dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id:                binary.BigEndian.Uint16(entropy[:]),
			RecursionDesired:  true,
			AuthenticatedData: true, // asks whether the answer was validated (RFC 6840 section 5.7)
		},
		Question: []dns.Question{{Name: capitals(q.Name, entropy[2:]), Qtype: uint16(q.Kind), Qclass: dns.ClassINET}},
	}
	if extended {
		request.SetEdns0(udpSize, false)
	}
	packed, err := request.Pack()
	if err != nil {
		return nil, fmt.Errorf("writing the question: %w", err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		return exchangeTCP(conn, request, packed)
	}
	return exchangeUDP(conn, request, packed)
}

// capitals sets letters in capitals by the bits of random.
func capitals(name string, random []byte) string {
	out := []byte(name)
	for i, c := range out {
		if c >= 'a' && c <= 'z' && random[i/8]>>(i%8)&1 == 1 {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

func exchangeUDP(conn net.Conn, request *dns.Msg, packed []byte) (*dns.Msg, error) {
	if _, err := conn.Write(packed); err != nil {
		return nil, err
	}
	buffer := make([]byte, 2*udpSize)
	for range maxJunk {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		m, err := read(buffer[:n], request)
		if errors.Is(err, errForeign) {
			continue // the right one may follow
		}
		if err == nil && m.Question[0].Name != request.Question[0].Name {
			return nil, errRespelt
		}
		return m, err
	}
	return nil, errJunk
}

func exchangeTCP(conn net.Conn, request *dns.Msg, packed []byte) (*dns.Msg, error) {
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(packed)), uint16(len(packed)))
	if _, err := conn.Write(append(framed, packed...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint16(length[:]))
	if size > tcpSize {
		return nil, errLarge
	}
	buffer := make([]byte, size)
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return nil, err
	}
	return read(buffer, request)
}

// headerBytes is the length of a message's header (RFC 1035 section 4.1.1).
const headerBytes = 12

// read parses an answer and matches it to its question: number, kind, class and name, capitals aside. Errors:
// errForeign, errTruncated.
func read(data []byte, request *dns.Msg) (*dns.Msg, error) {
	if len(data) < headerBytes || binary.BigEndian.Uint16(data) != request.Id {
		return nil, errForeign
	}
	m := new(dns.Msg)
	err := m.Unpack(data)
	if !m.Response || m.Opcode != dns.OpcodeQuery || len(m.Question) != 1 {
		return nil, errForeign
	}
	got, want := m.Question[0], request.Question[0]
	if got.Qtype != want.Qtype || got.Qclass != want.Qclass || !strings.EqualFold(got.Name, want.Name) {
		return nil, errForeign
	}
	if m.Truncated || err != nil {
		return nil, errTruncated
	}
	return m, nil
}
