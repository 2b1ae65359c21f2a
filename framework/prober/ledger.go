package prober

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// maxUnwritten is how many settled queries are kept for the sink, in 100 MB. At 35,000/s
// it lasts half a minute, the time for which a reader may stall (writeWithin).
const maxUnwritten = 1 << 20

// ledger takes settled queries without blocking and passes them to the sink in one
// goroutine.
type ledger struct {
	sink     func(history.Query)
	accounts []*account

	mu    sync.Mutex
	full  []batch
	spare [][]history.Query
	room  int // how many more queries it keeps; negative if it gave up
	wake  chan struct{}
}

type batch struct {
	account *account
	queries []history.Query
}

// account is where one stream settles its queries. It is safe for concurrent use.
type account struct {
	ledger *ledger
	tally  *tally

	mu      sync.Mutex
	settled []history.Query
	counts
}

// counts are what a stream counts besides its queries.
type counts struct {
	ignored int   // answers that came after their query was settled
	dropped int   // answers that the kernel had no room for
	reused  int   // queries from a port that is not fresh to connection tracking
	errs    int   // times that no socket could be opened or a socket did not take a query
	reason  error // why the first unsent query was not sent
}

func newLedger(streams []QueryStream, sink func(history.Query)) *ledger {
	l := &ledger{sink: sink, room: maxUnwritten, wake: make(chan struct{}, 1)}
	for _, s := range streams {
		l.accounts = append(l.accounts, &account{ledger: l, tally: newTally(s)})
	}
	return l
}

// settle takes a query with its outcome, and sets the stream's target and mode.
func (a *account) settle(q history.Query) {
	q.Target, q.Mode = a.tally.stream.Target, a.tally.stream.Mode
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled = append(a.settled, q)
}

// failed takes a query that could not be sent. It counts as lost if the network refused
// it, and as unsent if this machine did.
func (a *account) failed(q history.Query, now time.Duration, err error) {
	if unreachable(err) {
		q.Outcome, q.Sent, q.Done = history.ICMP, now, now
		a.settle(q)
		return
	}
	a.unsent(q.Intended, now, err)
}

func (a *account) unsent(intended, now time.Duration, why error) {
	a.settle(history.Query{Intended: intended, Done: now, Outcome: history.Unsent})
	a.trouble(why)
}

// trouble notes why queries do not leave. Any other reason explains more than lateness,
// which may be its consequence.
func (a *account) trouble(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !errors.Is(why, errLate) {
		a.errs++
	}
	if a.reason == nil || errors.Is(a.reason, errLate) {
		a.reason = why
	}
}

func (a *account) count(what *int, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*what += n
}

// handOver passes the settled queries to the ledger, many at a time to save wake-ups. It
// fails if the sink is so slow that the ledger has no room for them.
func (a *account) handOver() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.settled) == 0 {
		return nil
	}
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room -= len(a.settled); l.room < 0 {
		l.full = nil
		return fmt.Errorf("the record could not be written as fast as queries were settled, and more than %d wait for it: lower the rate, or write to something faster", maxUnwritten)
	}
	l.full = append(l.full, batch{a, a.settled})
	a.settled = nil
	if n := len(l.spare); n > 0 {
		a.settled, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return nil
}

// write passes settled queries to the sink until settled is closed and none is left, or
// until the ledger gave up.
func (l *ledger) write(settled <-chan struct{}) {
	for last := false; !last; {
		select {
		case <-l.wake:
		case <-settled:
			last = true
		}
		l.mu.Lock()
		full := l.full
		l.full = nil
		l.mu.Unlock()
		for _, b := range full {
			for _, q := range b.queries {
				b.account.tally.add(q)
				l.sink(q)
			}
			if !l.written(b) {
				return
			}
		}
	}
}

// written frees the room of a batch and reports whether the ledger goes on.
func (l *ledger) written(b batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room < 0 {
		return false
	}
	l.room += len(b.queries)
	l.spare = append(l.spare, b.queries[:0])
	return true
}

// summary may be called after write has returned.
func (l *ledger) summary() Summary {
	all := newTally(QueryStream{})
	var s Summary
	for _, a := range l.accounts {
		one := newTally(a.tally.stream)
		one.merge(a)
		if one.stream.Target == history.Echo {
			s.Echo = one.figures()
			continue
		}
		all.merge(a)
		s.Streams = append(s.Streams, QueryStreamSummary{Target: one.stream.Target, Mode: one.stream.Mode, Figures: one.figures()})
	}
	s.Figures = all.figures()
	return s
}

// unreachable reports whether the error is one of the network, which the kernel returns
// when a socket is connected or written to. EPERM is a drop or reject by a packet
// filter for outgoing packets. Any other error is this machine's own, such as too many
// open files.
func unreachable(err error) bool {
	for _, errno := range []syscall.Errno{
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN,
		unix.ENETDOWN, unix.ENOPROTOOPT, unix.EPERM, unix.EACCES,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
