package prober

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Run probes as planned until plan.For has passed or ctx ends. Then it waits for pending
// answers, at most for plan.Timeout or echoTimeout, and returns the summary. All times are durations
// since the clock's base.
//
// In addition to the plan's streams it queries its own responder, as history.Echo. If
// these queries are lost or late, the server is not the cause.
//
// Run calls sink in one goroutine with every query as soon as its outcome is known, not
// in order of time. A slow sink delays no query, but up to maxUnwritten of them are kept
// in memory.
//
// The end of ctx is no error. Run fails if the plan is invalid or too much for this
// machine: too few open files, no socket, or a sink that lags by more than maxUnwritten
// queries. The sink then misses some.
func Run(ctx context.Context, plan Plan, clock *history.Clock, sink func(history.Query)) (Summary, error) {
	if err := plan.Validate(); err != nil {
		return Summary{}, fmt.Errorf("probe plan: %w", err)
	}
	if err := checkOpenFiles(plan); err != nil {
		return Summary{}, err
	}
	rings, files := plan.rings(allowFiles(openFiles(plan)+freshCount)), openFiles(plan)
	for _, r := range rings {
		files += uint64(r.kept)
	}
	l, err := newLoop(clock, files)
	if err != nil {
		return Summary{}, err
	}
	defer l.close()
	echo, stopEcho, err := startEcho(ctx, plan.echo())
	if err != nil {
		return Summary{}, err
	}
	defer stopEcho()
	streams := slices.Concat(plan.Streams, []QueryStream{echo})
	ledger := newLedger(streams, sink)
	var running []*progress
	defer func() {
		for _, c := range running {
			c.close()
		}
	}()
	rings = append(rings, ring{}) // the echo has none
	for i, s := range streams {
		timeout := plan.timeout()
		if s.Target == history.Echo {
			timeout = echoTimeout
		}
		sender, err := newSender(&task{l, s, timeout, ledger.accounts[i]}, rings[i])
		if err != nil {
			return Summary{}, fmt.Errorf("probe %s/%s: %w", s.Target, s.Mode, err)
		}
		running = append(running, newProgress(s, plan.For, sender, ledger.accounts[i]))
	}
	settled, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		ledger.write(settled)
	}()
	l.base = clock.Now() + time.Millisecond
	err = l.run(ctx, running)
	close(settled)
	<-written
	if err != nil {
		return Summary{}, fmt.Errorf("probe: %w", err)
	}
	summary := ledger.summary()
	for i := range summary.Streams {
		summary.Streams[i].KeptSockets = rings[i].kept
	}
	return summary, nil
}

func newSender(t *task, r ring) (sender, error) {
	if t.stream.Mode.OfApplications() {
		return newRequests(t), nil
	}
	asked, err := newQuestions(t.stream)
	if err != nil {
		return nil, err
	}
	switch t.stream.Mode {
	case history.Fresh:
		return newFreshPorts(t, asked, r), nil
	case history.Fixed:
		return newFixedPorts(t, asked)
	default:
		return newConnections(t, asked), nil
	}
}

// openFiles is how many files a plan may have open at once if no socket is kept.
func openFiles(p Plan) uint64 {
	need := uint64(64) // for everything else
	for _, s := range p.Streams {
		need += s.sockets(p.timeout())
	}
	return need
}

// sockets is how many a stream may have open at once if none is kept: without an
// answer, every query from a fresh port has one until its timeout. An HTTP connection is for
// one request at a time, so that kept ones are as many then.
func (s QueryStream) sockets(timeout time.Duration) uint64 {
	if s.Ports > 0 && s.Mode != history.HTTPKept {
		return uint64(s.Ports)
	}
	return uint64(float64(s.Rate) * (timeout + Tolerance).Seconds())
}

// checkOpenFiles raises the limit of open files if a plan may need more than this
// process may open. It fails if that is not permitted.
func checkOpenFiles(p Plan) error {
	need := openFiles(p)
	if limit := allowFiles(need); limit < need {
		return fmt.Errorf("an outage would leave %d sockets open (rate × timeout of fresh streams), but this process may open %d: "+
			"lower the rate or the timeout, or raise the limit (ulimit -n %d)", need, limit, need)
	}
	return nil
}

// allowFiles raises the limit of open files if it is lower than that and may be raised.
// It returns the limit.
func allowFiles(need uint64) uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	if need <= limit.Cur {
		return limit.Cur
	}
	for _, most := range []uint64{max(need, limit.Max), limit.Max} {
		raised := unix.Rlimit{Cur: min(need, most), Max: most}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			return raised.Cur
		}
	}
	return limit.Cur
}

// growFileTable enlarges the kernel's table of this process's files for that many, by
// giving an open file the last number for a moment: the table never shrinks. Otherwise
// Linux doubles the table whenever it is full, and a process with several threads then
// waits for an RCU grace period (expand_fdtable in fs/file.c), some 15 ms in which no
// query leaves. That would happen when sockets pile up: at the beginning of an outage.
func growFileTable(open int, files uint64) error {
	last, err := unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, int(files)-1)
	if err == nil {
		err = unix.Close(last)
	}
	return wrap.Errorf(err, "make room for %d open files", files)
}
