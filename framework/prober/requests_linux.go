package prober

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// requests are those to an application: a TCP connection that is opened and closed, or an
// HTTP/1.1 GET over a connection of its own or over one that was kept. As with queries over TCP,
// a request leaves when its connection is requested. Nothing is sent again: a client that
// repeats what failed hides how often it does.
type requests struct {
	overTCP
	wire   []byte // of the GET
	idle   []*session
	closed bool
}

// session is an HTTP connection, for one request at a time.
type session struct {
	conn   net.Conn
	port   int
	reader *bufio.Reader
}

func newRequests(t *task) *requests {
	r, s := &requests{overTCP: newOverTCP(t)}, t.stream
	if s.Mode != history.Dial {
		closes := ""
		if s.Mode == history.HTTP {
			closes = "Connection: close\r\n"
		}
		r.wire = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: spotdrill\r\n%s\r\n", s.Path, s.Server, closes)
	}
	return r
}

func (r *requests) send(from, to int) (next int) {
	for i := from; i < to; i++ {
		r.begin(i, r.request)
	}
	return to
}

func (r *requests) close() {
	r.ended.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, s := range r.idle {
		_ = s.conn.Close()
	}
}

func (r *requests) request(q history.Query) {
	s := r.takeIdle()
	if s == nil {
		conn, port, err := r.dial(q)
		q.Port = port
		if err != nil {
			r.settle(q, notConnected(err), err)
			return
		}
		s = &session{conn: conn, port: port, reader: bufio.NewReader(conn)}
	}
	q.Port = s.port
	if r.stream.Mode == history.Dial {
		r.settle(q, history.Answered, nil)
		r.end(s)
		return
	}
	outcome, again := s.get(r.wire, r.deadline(q))
	r.settle(q, outcome, nil)
	if !again || r.stream.Mode != history.HTTPKept || !r.keep(s) {
		r.end(s)
	}
}

func (r *requests) end(s *session) {
	endWithReset(s.conn)
	_ = s.conn.Close()
}

// takeIdle returns the connection that was used last and that its server has not closed; nil if
// there is none.
func (r *requests) takeIdle() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.idle) > 0 {
		last := len(r.idle) - 1
		s := r.idle[last]
		r.idle = r.idle[:last]
		if s.alive() {
			return s
		}
		r.end(s)
	}
	return nil
}

// keep keeps a connection for another request, and reports whether there was room.
func (r *requests) keep(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle) == r.stream.Ports {
		return false
	}
	r.idle = append(r.idle, s)
	return true
}

// get sends a GET, and reads the answer to its end. Again reports whether the connection can
// take another one.
func (s *session) get(wire []byte, deadline time.Time) (outcome history.Outcome, again bool) {
	_ = s.conn.SetDeadline(deadline)
	if _, err := s.conn.Write(wire); err != nil {
		return interrupted(err), false
	}
	// Only what breaks after the first octet can be no HTTP.
	if _, err := s.reader.Peek(1); err != nil {
		return interrupted(err), false
	}
	answer, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		return interrupted(err), false
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	switch {
	case err != nil:
		return interrupted(err), false
	case answer.StatusCode >= http.StatusBadRequest:
		return history.OtherCode, !answer.Close
	}
	return history.Answered, !answer.Close
}

// interrupted is the outcome of a request whose answer did not come, or not whole.
func interrupted(err error) history.Outcome {
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return history.Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op):
		return history.ICMP
	}
	return history.Mismatch
}

// alive reports whether the server of an idle connection has sent nothing, not even the end.
func (s *session) alive() bool {
	raw, err := s.conn.(*net.TCPConn).SyscallConn()
	if err != nil || s.reader.Buffered() > 0 {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		alive = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err == nil && alive
}
