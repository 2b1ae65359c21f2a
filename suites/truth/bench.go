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
	"strconv"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// What is measured, and what it is asked about.
const (
	benchName = "kubernetes.default.svc.cluster.local"
	benchPort = "10533"
	benchRate = 20_000
	// turns is how often each figure is taken; the median is told.
	turns = 3
	// lostMost is the share of queries that a rate may lose to count as reached.
	lostMost = 0.001
)

// What is promised of the processor time per query at benchRate, as a share of
// dnsperf's from fixed ports. The highest rate is no promise: it is only told.
const (
	fixedMost = 0.7
	freshMost = 1.5
)

// corefile has CoreDNS answer one name from memory, and read from so many sockets.
const corefile = `.:` + benchPort + ` {
	bind 127.0.0.1
	multisocket %d
	hosts {
		10.0.0.1 ` + benchName + `
	}
}
`

// manySockets is how many CoreDNS reads from where one would be what limits the rate:
// a socket holds some 270 queries, however fast the server is on average.
const manySockets = 8

// bencher measures against one CoreDNS on loopback.
type bencher struct {
	binary  string
	seconds time.Duration
}

// cost is what one run took, and what became of its queries.
type cost struct {
	perQuery time.Duration // processor time
	memory   int64
	lost     int           // or not sent
	latest   time.Duration // the 99th percentile of how late queries left
	reached  float64       // queries/s
}

func bench(ctx context.Context, args []string) error {
	set, binary := flagSet("bench")
	coredns := set.String("coredns", "bin/coredns", "the CoreDNS to ask")
	seconds := set.Duration("for", 5*time.Second, "how long each run lasts")
	if err := set.Parse(args); err != nil {
		return err
	}
	b := bencher{*binary, *seconds}
	stop, err := b.startCoreDNS(ctx, *coredns, 1)
	if err != nil {
		return err
	}
	defer func() { stop() }()
	peer, err := median(func() (cost, error) { return b.dnsperf(ctx, benchRate) })
	if err != nil {
		return err
	}
	fixed, err := median(func() (cost, error) { return b.probe(ctx, benchRate, history.Fixed) })
	if err != nil {
		return err
	}
	fresh, err := median(func() (cost, error) { return b.probe(ctx, benchRate, history.Fresh) })
	if err != nil {
		return err
	}
	slow, err := median(func() (cost, error) { return b.probe(ctx, 1000, history.Fresh) })
	if err != nil {
		return err
	}
	ours, theirs, err := b.highestOfBoth(ctx)
	if err != nil {
		return err
	}
	stop()
	again, err := b.startCoreDNS(ctx, *coredns, manySockets)
	if err != nil {
		return err
	}
	stop = again
	oursOfMany, theirsOfMany, err := b.highestOfBoth(ctx)
	if err != nil {
		return err
	}

	fmt.Printf("%d cores; CoreDNS on loopback; each figure the median of %d runs of %v\n\n", runtime.NumCPU(), turns, *seconds)
	row("", "spotdrill probe", "dnsperf", "ratio")
	row("---", "---:", "---:", "---:")
	ratio := func(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }
	us := func(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1000) }
	row("processor time a query, 20,000/s, fixed ports", us(fixed.perQuery), us(peer.perQuery), ratio(float64(fixed.perQuery), float64(peer.perQuery)))
	row("processor time a query, 20,000/s, a fresh port each", us(fresh.perQuery), us(peer.perQuery)+" (fixed)", ratio(float64(fresh.perQuery), float64(peer.perQuery)))
	row("processor time a query, 1,000/s, a fresh port each", us(slow.perQuery), "", "")
	row("lost of "+strconv.Itoa(int(benchRate*seconds.Seconds())), fmt.Sprintf("%d fixed, %d fresh", fixed.lost, fresh.lost), strconv.Itoa(peer.lost), "")
	row("highest rate with less than 0.1 % lost", fmt.Sprintf("%.0f/s", ours), fmt.Sprintf("%.0f/s", theirs), ratio(ours, theirs))
	row(fmt.Sprintf("the same, CoreDNS reading from %d sockets", manySockets), fmt.Sprintf("%.0f/s", oursOfMany), fmt.Sprintf("%.0f/s", theirsOfMany), ratio(oursOfMany, theirsOfMany))
	row("sent late, p99, 1,000/s", ms(slow.latest), "does not say", "")
	row("sent late, p99, 20,000/s", ms(fixed.latest), "does not say", "")
	row("memory at 20,000/s", fmt.Sprintf("%d MiB", fixed.memory>>20), fmt.Sprintf("%d MiB", peer.memory>>20), ratio(float64(fixed.memory), float64(peer.memory)))
	return broken(fixed, fresh, peer)
}

// broken says which promises are.
func broken(fixed, fresh, peer cost) error {
	var errs []error
	for _, c := range []struct {
		ports string
		cost
		most float64
	}{{"fixed ports", fixed, fixedMost}, {"a fresh port each", fresh, freshMost}} {
		if share := float64(c.perQuery) / float64(peer.perQuery); share > c.most {
			errs = append(errs, fmt.Errorf("a query at %d/s, %s, takes %.2f of dnsperf's processor time, promised is at most %.2f", benchRate, c.ports, share, c.most))
		}
		if c.lost > 0 {
			errs = append(errs, fmt.Errorf("%d queries at %d/s, %s, were lost or not sent, promised is none", c.lost, benchRate, c.ports))
		}
	}
	return errors.Join(errs...)
}

// startCoreDNS returns when it answers; it runs until stop is called.
func (b bencher) startCoreDNS(ctx context.Context, binary string, sockets int) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "spotdrill-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "Corefile")
	running, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(running, binary, "-quiet", "-conf", file)
	stop = func() {
		cancel()
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	}
	err = os.WriteFile(file, fmt.Appendf(nil, corefile, sockets), 0o600)
	if err == nil {
		err = server.Start()
	}
	if err == nil {
		err = b.warm(ctx)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start CoreDNS: %w", err)
	}
	return stop, nil
}

// warm waits until CoreDNS answers.
func (b bencher) warm(ctx context.Context) error {
	var err error
	for range 20 {
		var c cost
		short := bencher{b.binary, 200 * time.Millisecond}
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

func (b bencher) dnsperf(ctx context.Context, rate int) (cost, error) {
	told, err := dnsperf(ctx, "127.0.0.1", benchPort, benchName, rate, b.seconds)
	if err != nil {
		return cost{}, err
	}
	return cost{told.took.cpu / time.Duration(max(1, told.sent)), told.took.memory, told.lost, 0, told.rate}, nil
}

// highestOfBoth are the highest rates of the prober and of dnsperf.
func (b bencher) highestOfBoth(ctx context.Context) (ours, theirs float64, err error) {
	ours, err = b.highest(ctx, func(rate int) (cost, error) { return b.probe(ctx, rate, history.Fixed) })
	if err != nil {
		return 0, 0, err
	}
	theirs, err = b.highest(ctx, func(rate int) (cost, error) { return b.dnsperf(ctx, rate) })
	if err != nil {
		return 0, 0, err
	}
	unbound, err := median(func() (cost, error) { return b.dnsperf(ctx, 0) })
	return ours, max(theirs, unbound.reached), err
}

// highest doubles the distance between rates that are reached and halves it after,
// and returns the highest one that was.
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

// median runs a few times and returns the run in the middle by its cost.
func median(run func() (cost, error)) (cost, error) {
	var all []cost
	for range turns {
		c, err := run()
		if err != nil {
			return cost{}, err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.perQuery, b.perQuery) })
	return all[len(all)/2], nil
}
