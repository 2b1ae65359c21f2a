package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// lead is how long before the first outage a session's plan is set: a probe takes
// a moment to start.
const lead = 300 * time.Millisecond

// sessionAttempts is how often a session with blurred outages is played.
const sessionAttempts = 6

// failing is a server that fails at known times.
type failing interface {
	address() string
	// fail makes it play outages from a moment on; played are the actual ones.
	fail(from time.Duration, plan []outage)
	played() []played
}

// trial is a server and how it is probed.
type trial struct {
	server failing
	binary string
	peers  []peer
}

func windows(ctx context.Context, args []string) error {
	set, binary := flagSet("windows")
	sessions := set.Int("sessions", 20, "sessions at each rate")
	rates := set.String("rates", "1000,5000,20000", "queries/s, by comma")
	seed := set.Uint64("seed", uint64(time.Now().UnixNano()), "of the outages' kinds, times and lengths")
	quiet := set.Duration("quiet", time.Minute, "how long nothing fails, at each rate")
	if err := set.Parse(args); err != nil {
		return err
	}
	s, err := startServer(ctx, options{ip: net.IPv4(127, 0, 0, 1), buffer: bufferSize})
	if err != nil {
		return err
	}
	have, skipped := installed()
	t := trial{s, *binary, have}
	fmt.Printf("seed %d: make truth SEED=%d plays the same outages\n\n", *seed, *seed)
	heads := []string{"rate", "outages", "within 2/rate + 1 ms", "worst of these", "stated wider, rightly", "unknown", "sessions played again", "wrong", "missed", "invented", "quiet", "invented then"}
	for _, p := range t.peers {
		heads = append(heads, p.name+": lost, of those due")
	}
	row(heads...)
	row(slices.Repeat([]string{"---:"}, len(heads))...)
	var all tally
	var blurred []error
	for _, text := range strings.Split(*rates, ",") {
		rate, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-rates: %w", err)
		}
		result, err := t.rate(ctx, rate, *sessions, *seed, *quiet)
		if err != nil {
			return err
		}
		all.add(result)
		blurred = append(blurred, result.sharp(rate))
	}
	for _, why := range skipped {
		fmt.Println("\n" + why)
	}
	web, err := startWebServer(ctx)
	if err != nil {
		return err
	}
	applications, errs := trial{web, *binary, nil}.applications(ctx, *sessions, *seed, *quiet)
	all.add(applications)
	blurred = append(blurred, errs)
	for _, way := range waysToStarve {
		starved, err := t.starved(ctx, way)
		if err != nil {
			return fmt.Errorf("a prober starved by %s: %w", way.by, err)
		}
		all.add(starved)
	}
	for _, d := range all.details {
		fmt.Fprintln(os.Stderr, "truth:", d)
	}
	if all.wrong+all.missed+all.invented > 0 {
		return fmt.Errorf("not true: %d wrong, %d missed, %d invented", all.wrong, all.missed, all.invented)
	}
	return errors.Join(blurred...)
}

// rate plays the sessions of one rate, a quiet time, and the last session again
// for the peers.
func (t trial) rate(ctx context.Context, rate, sessions int, seed uint64, quiet time.Duration) (tally, error) {
	random := rand.New(rand.NewPCG(seed, uint64(rate)))
	var sum tally
	var last []outage
	for n := range sessions {
		plan, length := session(n, random, []kind{silent, refuses, fails})
		last = plan
		one, err := t.judged(ctx, rate, []history.Mode{history.Fixed, history.Fresh}[n%2], plan, length)
		if err != nil {
			return sum, err
		}
		sum.add(one)
	}
	calm, err := t.session(ctx, rate, history.Fixed, nil, quiet)
	if err != nil {
		return sum, err
	}
	cells := sum.cells(fmt.Sprintf("%d/s", rate), quiet, calm)
	for _, p := range t.peers {
		lost, err := t.peer(ctx, p, rate, last)
		if err != nil {
			return sum, err
		}
		cells = append(cells, lost)
	}
	row(cells...)
	sum.add(calm)
	return sum, nil
}

// cells are those of a table's line about a tally, and about a quiet time.
func (t tally) cells(of string, quiet time.Duration, calm tally) []string {
	return []string{
		of, strconv.Itoa(t.outages), strconv.Itoa(t.exact), ms(t.worst), strconv.Itoa(t.wide), strconv.Itoa(t.unknown),
		playedAgain(t), strconv.Itoa(t.wrong), strconv.Itoa(t.missed), strconv.Itoa(t.invented), quiet.String(), strconv.Itoa(calm.invented),
	}
}

// applicationRate is the requests/s to an HTTP server.
const applicationRate = 1000

// applications plays sessions of an HTTP server in every mode of requests, and a quiet time.
func (t trial) applications(ctx context.Context, sessions int, seed uint64, quiet time.Duration) (all tally, blurred error) {
	fmt.Println()
	heads := []string{"requests, 1,000/s", "outages", "within 2/rate + 1 ms", "worst of these", "stated wider, rightly", "unknown", "sessions played again", "wrong", "missed", "invented", "quiet", "invented then"}
	row(heads...)
	row(slices.Repeat([]string{"---:"}, len(heads))...)
	for i, mode := range []history.Mode{history.Dial, history.HTTP, history.HTTPKept} {
		kinds := []kind{silent, refuses, fails}
		if mode == history.Dial {
			kinds = []kind{refuses} // the kernel accepts connections also for a server that is silent
		}
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		var sum tally
		for n := range (sessions + 1) / 2 {
			plan, length := session(n, random, kinds)
			one, err := t.judged(ctx, applicationRate, mode, plan, length)
			if err != nil {
				return all, err
			}
			sum.add(one)
		}
		calm, err := t.session(ctx, applicationRate, mode, nil, quiet/4)
		if err != nil {
			return all, err
		}
		row(sum.cells(string(mode), quiet/4, calm)...)
		blurred = errors.Join(blurred, sum.sharp(applicationRate))
		all.add(sum)
		all.add(calm)
	}
	return all, blurred
}

// errNotPlayed means that the server got no processor at the time of an outage.
var errNotPlayed = errors.New("this machine had too much load")

// judged plays a session, and repeats it while some of its outages are blurred, like a
// drill that could not be judged.
func (t trial) judged(ctx context.Context, rate int, mode history.Mode, plan []outage, length time.Duration) (sum tally, err error) {
	for attempt := 1; ; attempt++ {
		one, err := t.session(ctx, rate, mode, plan, length)
		if errors.Is(err, errNotPlayed) && attempt < sessionAttempts {
			sum.setAside(tally{unknown: len(plan)})
			continue
		}
		if err != nil {
			return tally{}, err
		}
		if one.blurred() == 0 || attempt == sessionAttempts {
			sum.add(one)
			return sum, nil
		}
		sum.setAside(one)
	}
}

// session probes while the server fails as planned.
func (t trial) session(ctx context.Context, rate int, mode history.Mode, plan []outage, length time.Duration) (tally, error) {
	t.server.fail(monotonic()+lead, plan)
	r, _, err := probing{
		binary: t.binary, server: t.server.address(), name: name, rate: rate, mode: mode, ports: 8, length: length + 2*lead,
	}.run(ctx)
	if err != nil {
		return tally{}, err
	}
	result := compare(t.server.played(), r.Streams[0].Windows, r.Streams[0].Doubts, rate)
	if result.outages != len(plan) {
		return tally{}, fmt.Errorf("the server played %d of %d outages: %w", result.outages, len(plan), errNotPlayed)
	}
	for i, d := range result.details {
		result.details[i] = fmt.Sprintf("%d/s %s: %s (%d unsent, sent late by p99 %v; unknown %v)", rate, mode, d, r.Summary.Unsent, r.Summary.LateP99, r.Streams[0].Doubts)
	}
	return result, nil
}

// playedAgain describes how many sessions were repeated, and for how many outages.
func playedAgain(t tally) string {
	if t.again == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, for %d outages", t.again, t.aside)
}

// peer runs another program while the server fails as planned. It returns how many
// queries that program reports as lost, of those that an open loop would have lost.
func (t trial) peer(ctx context.Context, p peer, rate int, plan []outage) (string, error) {
	t.server.fail(monotonic()+lead, plan)
	host, port, _ := strings.Cut(t.server.address(), ":")
	found, err := p.run(ctx, query{host, port, name, rate, plan[len(plan)-1].to + quietLeast})
	if err != nil {
		return "", err
	}
	lost := 0.0
	for _, o := range t.server.played() {
		lost += float64(rate) * (o.to - o.from).Seconds()
	}
	return fmt.Sprintf("%d of %.0f", found.lost+found.failed, lost), nil
}
