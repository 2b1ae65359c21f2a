package prober

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// addressOf is where a server of a test listens.
func addressOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

func applicationModes() []history.Mode {
	return []history.Mode{history.Dial, history.HTTP, history.HTTPKept}
}

// listening is a listener whose connections are served by serve.
func listening(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return addressOf(l)
}

// says answers each connection with a text, once it has read something, and ends it.
func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1024))
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestRequestsAreAnswered(t *testing.T) {
	for _, mode := range applicationModes() {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && r.URL.Path == "/healthz" {
					asked.Add(1)
				}
				_, _ = io.WriteString(w, strings.Repeat("ok", 10_000))
			}))
			t.Cleanup(server.Close)
			summary, queries := run(t, t.Context(), Plan{Streams: []QueryStream{requestsTo(addressOf(server.Listener), mode, 200)}, For: 500 * time.Millisecond})
			wantOnly(t, summary.Figures, history.Answered)
			ports := map[int]bool{}
			for _, q := range queries {
				ports[q.Port] = true
				if q.Sent < q.Intended || q.Done <= q.Sent {
					t.Fatalf("its times are not in order: %+v", q)
				}
			}
			sent := summary.Asked - summary.Unsent
			switch {
			case mode == history.HTTPKept && len(ports) > sent*3/4:
				t.Errorf("%d requests over %d connections: they are not kept", sent, len(ports))
			case mode != history.HTTPKept && len(ports)-min(1, summary.Unsent) != sent:
				t.Errorf("%d requests from %d ports, want one each", sent, len(ports))
			case mode != history.Dial && int(asked.Load()) != sent:
				t.Errorf("%d requests were made, and the server got %d", sent, asked.Load())
			}
		})
	}
}

func TestRequestsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		server func(t *testing.T) netip.AddrPort
		want   history.Outcome
		modes  []history.Mode
	}{
		"nobody listens":                        {closedPort, history.ICMP, applicationModes()},
		"no answer":                             {func(t *testing.T) netip.AddrPort { return listening(t, silent) }, history.Timeout, []history.Mode{history.HTTP, history.HTTPKept}},
		"the connection ends without an answer": {func(t *testing.T) netip.AddrPort { return listening(t, says("")) }, history.ICMP, []history.Mode{history.HTTP, history.HTTPKept}},
		"the answer ends in its middle": {func(t *testing.T) netip.AddrPort {
			return listening(t, says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"))
		}, history.ICMP, []history.Mode{history.HTTP, history.HTTPKept}},
		"no HTTP": {func(t *testing.T) netip.AddrPort { return listening(t, says("SSH-2.0-x\r\n\r\n")) }, history.Mismatch, []history.Mode{history.HTTP, history.HTTPKept}},
		"an error": {func(t *testing.T) netip.AddrPort {
			return listening(t, says("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"))
		}, history.OtherCode, []history.Mode{history.HTTP, history.HTTPKept}},
		"a redirection": {func(t *testing.T) netip.AddrPort {
			return listening(t, says("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"))
		}, history.Answered, []history.Mode{history.HTTP, history.HTTPKept}},
	} {
		for _, mode := range c.modes {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				summary, _ := run(t, t.Context(), Plan{
					Streams: []QueryStream{requestsTo(c.server(t), mode, 50)}, For: 200 * time.Millisecond, Timeout: 200 * time.Millisecond,
				})
				wantOnly(t, summary.Figures, c.want)
			})
		}
	}
}

// A client that waits for an answer before it sends the next request would be slowed down with
// the server, and would ask less in an outage.
func TestASlowApplicationIsAskedNoLess(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(300 * time.Millisecond) }))
	t.Cleanup(server.Close)
	summary, queries := run(t, t.Context(), Plan{Streams: []QueryStream{requestsTo(addressOf(server.Listener), history.HTTPKept, 100)}, For: time.Second})
	wantOnly(t, summary.Figures, history.Answered)
	if summary.Asked != 100 {
		t.Errorf("%d requests in a second, want 100", summary.Asked)
	}
	for _, q := range queries {
		if took := q.Done - q.Intended; took < 300*time.Millisecond {
			t.Fatalf("one took %s", took)
		}
	}
}

// A server ends idle connections as it stops, or after a while: nobody loses a request by that.
func TestAKeptConnectionThatTheServerEndsIsNotUsed(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateIdle { // at once: a request that meets the end on its way is lost, as it should be
			_ = conn.Close()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	summary, _ := run(t, t.Context(), Plan{Streams: []QueryStream{requestsTo(addressOf(server.Listener), history.HTTPKept, 4)}, For: time.Second})
	wantOnly(t, summary.Figures, history.Answered)
}

// What a server that is killed had promised on a kept connection is lost, and seen to be.
func TestARequestOnAConnectionThatBreaksIsLost(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 3 {
			conn, _, _ := w.(http.Hijacker).Hijack()
			endWithReset(conn)
			_ = conn.Close()
		}
	}))
	t.Cleanup(server.Close)
	summary, _ := run(t, t.Context(), Plan{Streams: []QueryStream{requestsTo(addressOf(server.Listener), history.HTTPKept, 20)}, For: 500 * time.Millisecond})
	if got := summary.Outcomes[history.ICMP]; got != 1 {
		t.Errorf("outcomes %v, want one %s", summary.Outcomes, history.ICMP)
	}
}
