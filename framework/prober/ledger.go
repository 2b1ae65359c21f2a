package prober

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// errLate is why most unsent queries were not sent.
var errLate = fmt.Errorf("more than %v behind their time: this machine was too busy", Tolerance)

// writeEvery is how long a settled query may wait to be written. Writing them
// in batches saves most of the wakeups.
const writeEvery = 20 * time.Millisecond

// ledger takes settled queries from many goroutines without making any of them
// wait, and hands them to the sink in one.
type ledger struct {
	sink     func(history.Query)
	accounts []*account

	mu    sync.Mutex
	queue []entry
}

type entry struct {
	account *account
	query   history.Query
}

// account is where one stream settles its queries.
type account struct {
	ledger *ledger
	tally  *tally

	mu      sync.Mutex
	ignored int
	trouble error // why the first unsent query was not sent
}

func newLedger(plan Plan, sink func(history.Query)) *ledger {
	l := &ledger{sink: sink}
	for _, s := range plan.Streams {
		l.accounts = append(l.accounts, &account{ledger: l, tally: newTally(s)})
	}
	return l
}

// settle takes a query whose outcome is known, at the given time.
func (a *account) settle(q history.Query, now time.Duration) {
	q.Done = now
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.ledger.queue = append(a.ledger.queue, entry{a, q})
}

// failed takes a query that could not be sent. It counts as lost where the
// network refused it, and as unsent where this machine did.
func (a *account) failed(q history.Query, now time.Duration, err error) {
	if unreachable(err) {
		q.Outcome = history.ICMP
		if q.Sent == 0 {
			q.Sent = now
		}
		a.settle(q, now)
		return
	}
	q.Outcome, q.Sent, q.Port = history.Unsent, 0, 0
	a.settle(q, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	// Any other reason tells more than lateness, which may follow from it.
	if a.trouble == nil || errors.Is(a.trouble, errLate) {
		a.trouble = err
	}
}

// ignore counts an answer that came after its query was settled.
func (a *account) ignore() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ignored++
}

// write hands settled queries to the sink until settled is closed and none is
// left.
func (l *ledger) write(settled <-chan struct{}) {
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	var spare []entry
	for last := false; ; {
		select {
		case <-ticker.C:
		case <-settled:
			last = true
		}
		l.mu.Lock()
		batch := l.queue
		l.queue = spare[:0]
		l.mu.Unlock()
		for _, e := range batch {
			e.account.tally.add(e.query)
			l.sink(e.query)
		}
		spare = batch
		if last {
			return
		}
	}
}

// summary may be called once write has returned.
func (l *ledger) summary() Summary {
	all := newTally(Stream{})
	var s Summary
	for _, a := range l.accounts {
		all.merge(a.tally, a.ignored, a.trouble)
		one := newTally(a.tally.stream)
		one.merge(a.tally, a.ignored, a.trouble)
		s.Streams = append(s.Streams, StreamSummary{Target: a.tally.stream.Target, Mode: a.tally.stream.Mode, Figures: one.figures()})
	}
	s.Figures = all.figures()
	return s
}
