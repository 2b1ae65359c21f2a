package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// peer is another program that queries DNS servers at a rate.
type peer struct {
	name    string
	program string // its name in PATH
	run     func(context.Context, query) (figures, error)
}

// peers are compared with the prober. The cost of the first one is the baseline. Debian
// 12 has no package of flamethrower (github.com/DNS-OARC/flamethrower): it is measured if
// it is in PATH.
func peers() []peer {
	return []peer{{"dnsperf", "dnsperf", dnsperf}, {"flamethrower", "flame", flamethrower}}
}

// installed are the peers in PATH; skipped has a line for each of the others.
func installed() (have []peer, skipped []string) {
	for _, p := range peers() {
		if _, err := exec.LookPath(p.program); err != nil {
			skipped = append(skipped, fmt.Sprintf("%s: skipped, %s is not on the PATH", p.name, p.program))
			continue
		}
		have = append(have, p)
	}
	return have, skipped
}

// query is what a peer queries, and for how long.
type query struct {
	host, port string
	name       string
	rate       int // queries/s; 0 for as fast as it can
	length     time.Duration
}

// figures are the result of a peer.
type figures struct {
	sent, lost int
	failed     int // answered with another code than NOERROR
	rate       float64
	took       usage
}

// failed is the count of error answers, which a summary has only if there were some.
const failed = "failed"

var dnsperfLines = map[string]*regexp.Regexp{
	"sent": regexp.MustCompile(`Queries sent:\s+(\d+)`),
	"lost": regexp.MustCompile(`Queries lost:\s+(\d+)`),
	"rate": regexp.MustCompile(`Queries per second:\s+([\d.]+)`),
	failed: regexp.MustCompile(`SERVFAIL (\d+)`),
}

// dnsperf is a closed loop: it sends nothing while 100 queries, its default, are
// pending.
func dnsperf(ctx context.Context, q query) (figures, error) {
	file, err := os.CreateTemp("", "dnsperf-*.txt")
	if err != nil {
		return figures{}, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = fmt.Fprintf(file, "%s A\n", q.name)
	if err := errors.Join(err, file.Close()); err != nil {
		return figures{}, err
	}
	args := []string{"dnsperf", "-s", q.host, "-p", q.port, "-d", file.Name(), "-l", strconv.Itoa(q.seconds()), "-t", "2"}
	if q.rate > 0 {
		args = append(args, "-Q", strconv.Itoa(q.rate))
	}
	out, took, err := command(ctx, args...)
	if err != nil {
		return figures{}, err
	}
	number, err := numbers(out, dnsperfLines)
	return figures{int(number["sent"]), int(number["lost"]), int(number[failed]), number["rate"], took}, err
}

var flamethrowerLines = map[string]*regexp.Regexp{
	"sent":     regexp.MustCompile(`total sent\s*: (\d+)`),
	"received": regexp.MustCompile(`total rcvd\s*: (\d+)`),
	failed:     regexp.MustCompile(`SERVFAIL: (\d+)`),
}

// flamethrower sends at its rate whether or not queries are answered.
func flamethrower(ctx context.Context, q query) (figures, error) {
	out, took, err := command(ctx, "flame", "-p", q.port, "-r", q.name, "-l", strconv.Itoa(q.seconds()), "-t", "2", "-Q", strconv.Itoa(q.rate), q.host)
	if err != nil {
		return figures{}, err
	}
	number, err := numbers(out, flamethrowerLines)
	sent, received := number["sent"], number["received"]
	return figures{int(sent), int(sent - received), int(number[failed]), received / float64(q.seconds()), took}, err
}

// seconds is the duration in whole seconds, which these programs require.
func (q query) seconds() int { return int((q.length + time.Second - 1) / time.Second) }

// numbers reads a summary. Only the code of an answer may be missing, if no answer had it.
func numbers(summary string, lines map[string]*regexp.Regexp) (map[string]float64, error) {
	out := map[string]float64{}
	for what, line := range lines {
		m := line.FindStringSubmatch(summary)
		if m == nil && what != failed {
			return nil, fmt.Errorf("a summary without %q: %s", line, summary)
		}
		if m == nil {
			continue
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return nil, fmt.Errorf("a summary whose %q is not a number: %w", m[0], err)
		}
		out[what] = n
	}
	return out, nil
}
