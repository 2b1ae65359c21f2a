package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// lead is how long before the first outage a session's plan is set: a probe takes
// a moment to start.
const lead = 300 * time.Millisecond

// sessionAttempts is how often a session is played of which something is unknown.
const sessionAttempts = 6

// trial is a server and what is asked of it.
type trial struct {
	server *server
	binary string
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
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	t := trial{s, *binary}
	fmt.Printf("seed %d: make truth SEED=%d plays the same outages\n\n", *seed, *seed)
	row("rate", "outages", "within 2/rate + 1 ms", "worst of these", "stated wider, rightly", "unknown", "played again", "wrong", "missed", "invented", "quiet", "invented then", "dnsperf: lost, of those due")
	row(slices.Repeat([]string{"---:"}, 13)...)
	var all tally
	var unknown []error
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
		unknown = append(unknown, result.known(rate))
	}
	starved, err := t.starved(ctx)
	if err != nil {
		return err
	}
	all.add(starved)
	for _, d := range all.details {
		fmt.Fprintln(os.Stderr, "truth:", d)
	}
	if all.wrong+all.missed+all.invented > 0 {
		return fmt.Errorf("not true: %d wrong, %d missed, %d invented", all.wrong, all.missed, all.invented)
	}
	return errors.Join(unknown...)
}

// rate plays the sessions of one rate, a quiet time, and the last session again
// for dnsperf.
func (t trial) rate(ctx context.Context, rate, sessions int, seed uint64, quiet time.Duration) (tally, error) {
	random := rand.New(rand.NewPCG(seed, uint64(rate)))
	var sum tally
	var last []outage
	for n := range sessions {
		plan, length := session(n, random)
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
	peer, err := t.peer(ctx, rate, last)
	if err != nil {
		return sum, err
	}
	row(fmt.Sprintf("%d/s", rate), strconv.Itoa(sum.outages), strconv.Itoa(sum.exact), ms(sum.worst), strconv.Itoa(sum.wide), strconv.Itoa(sum.unknown),
		strconv.Itoa(sum.again), strconv.Itoa(sum.wrong), strconv.Itoa(sum.missed), strconv.Itoa(sum.invented), quiet.String(), strconv.Itoa(calm.invented), peer)
	sum.add(calm)
	return sum, nil
}

// judged plays a session, and plays it again while some of its outages are unknown,
// as a drill is that could not be judged.
func (t trial) judged(ctx context.Context, rate int, mode history.Mode, plan []outage, length time.Duration) (sum tally, err error) {
	for attempt := 1; ; attempt++ {
		one, err := t.session(ctx, rate, mode, plan, length)
		if err != nil {
			return tally{}, err
		}
		if one.unknown == 0 || attempt == sessionAttempts {
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
		binary: t.binary, server: t.server.at.String(), name: name, rate: rate, mode: mode, ports: 8, length: length + 2*lead,
	}.run(ctx)
	if err != nil {
		return tally{}, err
	}
	result := compare(t.server.played(), r.Streams[0].Windows, r.Streams[0].Doubts, rate)
	if result.outages != len(plan) {
		return tally{}, fmt.Errorf("the server played %d of %d outages: it was too busy", result.outages, len(plan))
	}
	for i, d := range result.details {
		result.details[i] = fmt.Sprintf("%d/s %s: %s (%d unsent, sent late by p99 %v; unknown %v)", rate, mode, d, r.Summary.Unsent, r.Summary.LateP99, r.Streams[0].Doubts)
	}
	return result, nil
}

// peer has dnsperf ask while the server fails as planned, and says how many of the
// queries that an open loop would have lost it tells as lost.
func (t trial) peer(ctx context.Context, rate int, plan []outage) (string, error) {
	t.server.fail(monotonic()+lead, plan)
	host, port, _ := strings.Cut(t.server.at.String(), ":")
	told, err := dnsperf(ctx, host, port, name, rate, plan[len(plan)-1].to+quietLeast)
	if errors.Is(err, exec.ErrNotFound) {
		return "not installed", nil
	}
	if err != nil {
		return "", err
	}
	lost := 0.0
	for _, o := range t.server.played() {
		lost += float64(rate) * (o.to - o.from).Seconds()
	}
	return fmt.Sprintf("%d of %.0f", told.lost+told.failed, lost), nil
}

// starved probes a server that is well with a prober that gets hardly any
// processor time.
func (t trial) starved(ctx context.Context) (tally, error) {
	spinning, stop := context.WithCancel(ctx)
	defer stop()
	for range 4 {
		spinner := exec.CommandContext(spinning, "chrt", "--other", "0", "sh", "-c", "while :; do :; done")
		if err := spinner.Start(); err != nil {
			return tally{}, fmt.Errorf("start a neighbour that spins: %w", err)
		}
		defer func() { _ = spinner.Wait() }()
	}
	defer stop()
	t.server.fail(monotonic(), nil)
	r, _, err := probing{
		binary: t.binary, server: t.server.at.String(), name: name, rate: 1000, mode: history.Fixed, ports: 8, length: 10 * time.Second,
		under: []string{"chrt", "--idle", "0", "taskset", "--cpu-list", "0", "env", "GOMAXPROCS=1"},
	}.run(ctx)
	if err != nil {
		return tally{}, err
	}
	var unknown time.Duration
	for _, d := range r.Streams[0].Doubts {
		unknown += d.To - d.From
	}
	fmt.Printf("\nStarved of processor time for 10 s, with a server that was well: %d windows, %d intervals of %v in all unknown, %d of %d queries unsent.\n",
		len(r.Streams[0].Windows), len(r.Streams[0].Doubts), unknown.Round(time.Millisecond), r.Summary.Unsent, r.Summary.Asked)
	result := tally{invented: len(r.Streams[0].Windows)}
	if len(r.Streams[0].Doubts) == 0 {
		return result, errors.New("a starved prober doubted nothing")
	}
	for _, w := range r.Streams[0].Windows {
		result.details = append(result.details, fmt.Sprintf("starved: invented %v with %d lost", w.Length(), w.Lost))
	}
	return result, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }
