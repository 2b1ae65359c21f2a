package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// What is measured, and with which queries.
const (
	benchName = "kubernetes.default.svc.cluster.local"
	benchPort = "10533"
	benchRate = 20_000
	// turns is how often each figure is measured; the median is reported.
	turns = 3
	// lostMost is the share of queries that a rate may lose to count as reached.
	lostMost = 0.001
)

// The limits at benchRate, as a share of dnsperf's figures: of the processor time per
// query, and of the memory of the prober without the rest of spotdrill. The highest rate
// has no limit: it is only reported.
const (
	fixedMost  = 0.7
	freshMost  = 1.2
	memoryMost = 3
)

// corefile makes CoreDNS answer one name from memory and read from that many sockets.
const corefile = `.:` + benchPort + ` {
	bind 127.0.0.1
	multisocket %d
	hosts {
		10.0.0.1 ` + benchName + `
	}
}
`

// serving is how CoreDNS receives queries.
type serving struct {
	as      string // of the highest rate that is measured of it
	sockets int
	buffer  int // bytes that a socket holds; 0 for Linux's default
}

// servings are what the highest rate is measured against: CoreDNS with its defaults,
// and with a buffer for queries that arrive while it has no processor. A socket's
// default buffer holds about 270 queries, however fast the server is on average.
var servings = []serving{
	{as: "highest rate with less than 0.1 % lost", sockets: 1},
	{as: "the same, CoreDNS reading from 8 sockets", sockets: 8},
	{as: "the same, from one socket that holds 8 MiB", sockets: 1, buffer: 8 << 20},
}

// bencher measures against one CoreDNS on loopback.
type bencher struct {
	binary  string
	coredns string
	seconds time.Duration
	peers   []peer // the installed ones; the first is the baseline
}

// cost is the cost of one run, and the fate of its queries.
type cost struct {
	perQuery time.Duration // processor time
	memory   int64
	lost     int           // or not sent
	latest   time.Duration // the 99th percentile of how late queries left
	reached  float64       // queries/s
}

func bench(ctx context.Context, args []string) error {
	set, binary := flagSet("bench")
	coredns := set.String("coredns", "bin/coredns", "the CoreDNS `binary` to query")
	seconds := set.Duration("for", 5*time.Second, "how long each run lasts")
	rate := set.Bool("highest", true, "measure the highest rates, too")
	if err := set.Parse(args); err != nil {
		return err
	}
	have, skipped := installed()
	if len(have) == 0 || have[0].name != peers()[0].name {
		return fmt.Errorf("there is no peer to compare with: %s", skipped[0])
	}
	b := bencher{*binary, *coredns, *seconds, have}
	var c costs
	measure := func() (err error) {
		c, err = b.costs(ctx)
		return err
	}
	// With a large buffer only the prober itself can cause losses.
	err := b.serve(ctx, servings[len(servings)-1], measure)
	if errors.Is(err, unix.EPERM) {
		err = b.serve(ctx, servings[0], measure)
	}
	if err != nil {
		return err
	}
	highest := make([]rates, len(servings))
	for i, s := range servings {
		if !*rate {
			highest[i].skipped = errors.New("-highest=false")
			continue
		}
		err := b.serve(ctx, s, func() (err error) {
			highest[i], err = b.highestOfAll(ctx)
			return err
		})
		if errors.Is(err, unix.EPERM) {
			highest[i].skipped = err
		} else if err != nil {
			return err
		}
	}
	fmt.Printf("%d cores; CoreDNS on loopback; each figure the median of %d runs of %v\n\n", runtime.NumCPU(), turns, *seconds)
	b.table(c, highest)
	for _, why := range skipped {
		fmt.Println("\n" + why)
	}
	return c.broken()
}

// costs are the costs of queries at benchRate for the peers and for the prober, from fixed
// and from fresh ports, and of fresh ports at 1,000/s.
type costs struct {
	peers              []cost
	fixed, fresh, slow cost
	alone              struct{ fixed, fresh cost } // the prober without the rest of spotdrill
}

// costs measures all of them in turn, so that a busy moment concerns all of them.
func (b bencher) costs(ctx context.Context) (c costs, err error) {
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	alone := b
	alone.binary = self
	c.peers = make([]cost, len(b.peers))
	var all []measured
	for i, p := range b.peers {
		all = append(all, measured{to: &c.peers[i], run: func() (cost, error) { return b.peer(ctx, p, benchRate) }})
	}
	for _, m := range []struct {
		to   *cost
		by   bencher
		rate int
		mode history.Mode
	}{
		{&c.fixed, b, benchRate, history.Fixed},
		{&c.fresh, b, benchRate, history.Fresh},
		{&c.slow, b, 1000, history.Fresh},
		{&c.alone.fixed, alone, benchRate, history.Fixed},
		{&c.alone.fresh, alone, benchRate, history.Fresh},
	} {
		all = append(all, measured{to: m.to, run: func() (cost, error) { return m.by.probe(ctx, m.rate, m.mode) }})
	}
	err = inTurn(all)
	return c, err
}

// broken returns an error for each exceeded limit.
func (c costs) broken() error {
	var errs []error
	for _, ours := range []struct {
		ports string
		cost
		most float64
	}{{"fixed ports", c.fixed, fixedMost}, {"a fresh port each", c.fresh, freshMost}} {
		if share := float64(ours.perQuery) / float64(c.peers[0].perQuery); share > ours.most {
			errs = append(errs, fmt.Errorf("a query at %d/s, %s, takes %.2f of dnsperf's processor time, want at most %.2f", benchRate, ours.ports, share, ours.most))
		}
		if ours.lost > 0 {
			errs = append(errs, fmt.Errorf("%d queries at %d/s, %s, were lost or not sent, want none", ours.lost, benchRate, ours.ports))
		}
	}
	for _, ours := range []struct {
		ports string
		cost
	}{{"fixed ports", c.alone.fixed}, {"a fresh port each", c.alone.fresh}} {
		if share := float64(ours.memory) / float64(c.peers[0].memory); share > memoryMost {
			errs = append(errs, fmt.Errorf("the prober alone at %d/s, %s, takes %.2f of dnsperf's memory, want at most %d", benchRate, ours.ports, share, memoryMost))
		}
	}
	return errors.Join(errs...)
}

// serve runs do while CoreDNS answers.
func (b bencher) serve(ctx context.Context, s serving, do func() error) error {
	dir, err := os.MkdirTemp("", "spotdrill-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(file, fmt.Appendf(nil, corefile, s.sockets), 0o600); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	server := exec.CommandContext(running, b.coredns, "-quiet", "-conf", file)
	if err := server.Start(); err != nil {
		stop()
		return fmt.Errorf("start CoreDNS: %w", err)
	}
	defer func() { stop(); _ = server.Wait() }()
	if err := b.warm(ctx); err != nil {
		return err
	}
	if s.buffer > 0 {
		if err := widen(server.Process.Pid, s.buffer); err != nil {
			return fmt.Errorf("set the buffer of CoreDNS's socket to %d bytes: %w", s.buffer, err)
		}
	}
	return do()
}

// warm waits until CoreDNS answers.
func (b bencher) warm(ctx context.Context) error {
	var err error
	for range 20 {
		var c cost
		short := b
		short.seconds = 200 * time.Millisecond
		if c, err = short.probe(ctx, 10, history.Fixed); err == nil && c.lost == 0 {
			return nil
		}
	}
	return errors.Join(errors.New("CoreDNS does not answer on port "+benchPort), err)
}

func (b bencher) probe(ctx context.Context, rate int, mode history.Mode) (cost, error) {
	r, took, err := probing{
		binary: b.binary, server: "127.0.0.1:" + benchPort, name: benchName, rate: rate, mode: mode, ports: max(8, rate/2000), length: b.seconds,
	}.run(ctx)
	if err != nil {
		return cost{}, err
	}
	s := r.Summary
	return cost{
		took.cpu / time.Duration(max(1, s.Asked)), took.memory, s.Lost() + s.Unsent, s.LateP99,
		float64(s.Asked-s.Unsent) / b.seconds.Seconds(),
	}, nil
}

func (b bencher) peer(ctx context.Context, p peer, rate int) (cost, error) {
	found, err := p.run(ctx, query{"127.0.0.1", benchPort, benchName, rate, b.seconds})
	if err != nil {
		return cost{}, fmt.Errorf("measure %s: %w", p.name, err)
	}
	return cost{found.took.cpu / time.Duration(max(1, found.sent)), found.took.memory, found.lost, 0, found.rate}, nil
}

// rates are the highest rates, in queries/s, or why they could not be measured.
type rates struct {
	ours    float64
	peers   []float64
	skipped error
}

func (b bencher) highestOfAll(ctx context.Context) (r rates, err error) {
	r.ours, err = b.highest(ctx, func(rate int) (cost, error) { return b.probe(ctx, rate, history.Fixed) })
	if err != nil {
		return r, err
	}
	for _, p := range b.peers {
		theirs, err := b.highest(ctx, func(rate int) (cost, error) { return b.peer(ctx, p, rate) })
		if err != nil {
			return r, err
		}
		// At its highest rate.
		unbound, err := median(func() (cost, error) { return b.peer(ctx, p, 0) })
		if err != nil {
			return r, err
		}
		if float64(unbound.lost) < lostMost*unbound.reached*b.seconds.Seconds() {
			theirs = max(theirs, unbound.reached)
		}
		r.peers = append(r.peers, theirs)
	}
	return r, nil
}

// highest returns the highest rate that is reached. It doubles the step while rates are
// reached, and then halves it.
func (b bencher) highest(ctx context.Context, try func(rate int) (cost, error)) (float64, error) {
	reached := 0.0
	for rate, step := benchRate, benchRate; step >= 5000 && rate <= 200_000 && ctx.Err() == nil; {
		c, err := try(rate)
		if err != nil {
			return 0, err
		}
		asked := float64(rate) * b.seconds.Seconds()
		if float64(c.lost) < lostMost*asked && c.reached > (1-lostMost)*0.99*float64(rate) {
			reached = max(reached, c.reached)
		} else {
			rate, step = rate-step, step/2
		}
		rate += step
	}
	return reached, nil
}

// median runs a few times and returns the run with the median cost.
func median(run func() (cost, error)) (cost, error) {
	var c cost
	err := inTurn([]measured{{to: &c, run: run}})
	return c, err
}

// measured is a cost that is measured a few times.
type measured struct {
	to  *cost // the run with the median cost
	run func() (cost, error)
	all []cost
}

// inTurn measures each cost once, then each again.
func inTurn(costs []measured) error {
	for range turns {
		for i := range costs {
			c, err := costs[i].run()
			if err != nil {
				return err
			}
			costs[i].all = append(costs[i].all, c)
		}
	}
	for _, m := range costs {
		slices.SortFunc(m.all, func(a, b cost) int { return cmp.Compare(a.perQuery, b.perQuery) })
		*m.to = m.all[len(m.all)/2]
	}
	return nil
}
