package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// webServer is an HTTP server whose outages are known: what it is at a moment holds for the
// requests that it reads from then on.
type webServer struct {
	at *net.TCPAddr

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	plan     []outage // CLOCK_MONOTONIC
	now      kind     // how it fails at present
	truth    []played
}

// tick is how often the plan is looked at. What a tick was late is a doubt about the edge.
const tick = 200 * time.Microsecond

func startWebServer(ctx context.Context) (*webServer, error) {
	w := &webServer{at: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, open: map[net.Conn]bool{}}
	// As with the DNS server: ports that no client sends from.
	var err error
	for w.at.Port = 5400; w.at.Port < 10000; w.at.Port++ {
		if err = w.listen(); err == nil {
			go w.follow(ctx)
			return w, nil
		}
	}
	return nil, err
}

func (w *webServer) address() string { return w.at.String() }

func (w *webServer) listen() error {
	l, err := net.ListenTCP("tcp4", w.at)
	if err != nil {
		return fmt.Errorf("open the server's socket: %w", err)
	}
	w.mu.Lock()
	w.listener = l
	w.mu.Unlock()
	go w.accept(l)
	return nil
}

// fail makes the server play outages from a moment on.
func (w *webServer) fail(from time.Duration, plan []outage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.truth = nil, nil
	for _, o := range plan {
		w.plan = append(w.plan, outage{o.kind, from + o.from, from + o.to})
	}
}

// played are the actual outages.
func (w *webServer) played() []played {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]played(nil), w.truth...)
}

// follow plays the plan.
func (w *webServer) follow(ctx context.Context) {
	last := monotonic()
	for ctx.Err() == nil {
		time.Sleep(tick)
		now := monotonic()
		late := now - last
		last = now
		w.mu.Lock()
		plan, current := w.plan, w.now
		w.mu.Unlock()
		var err error
		switch {
		case len(plan) == 0:
		case current == "" && now >= plan[0].from:
			w.begin(plan[0].kind, late)
		case current != "" && now >= plan[0].to:
			err = w.end(late)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "truth: the server:", err)
			return
		}
	}
	_ = w.listener.Close()
}

// begin begins an outage. One that refuses resets all connections.
func (w *webServer) begin(k kind, late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := monotonic()
	w.now = k
	if k == refuses {
		_ = w.listener.Close()
		for conn := range w.open {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
	from := monotonic()
	w.truth = append(w.truth, played{outage: outage{kind: k, from: from}, before: max(0, late-tick) + from - before})
}

func (w *webServer) end(late time.Duration) error {
	to := monotonic()
	w.mu.Lock()
	refused := w.now == refuses
	w.now = ""
	w.mu.Unlock()
	if refused {
		if err := w.listen(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &w.truth[len(w.truth)-1]
	o.to, o.after = to, max(0, late-tick)+monotonic()-to
	w.plan = w.plan[1:]
	return nil
}

func (w *webServer) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // it was closed
		}
		go w.serve(conn)
	}
}

// serve answers the requests of a connection.
func (w *webServer) serve(conn net.Conn) {
	w.mu.Lock()
	w.open[conn] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.open, conn)
		w.mu.Unlock()
		_ = conn.Close()
	}()
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w.mu.Lock()
		now := w.now
		w.mu.Unlock()
		status := http.StatusOK
		switch now {
		case silent:
			_, _ = io.Copy(io.Discard, conn) // until the client gives up
			return
		case fails:
			status = http.StatusServiceUnavailable
		}
		answer := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: request.Close}
		if err := answer.Write(conn); err != nil || request.Close {
			return
		}
	}
}
