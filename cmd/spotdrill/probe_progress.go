package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/reports"
)

// probeProgress follows a probe and tells how it goes.
type probeProgress struct {
	clock   *history.Clock
	plan    prober.Plan
	out     io.Writer
	watches []*prober.Watch // one a stream

	mu        sync.Mutex
	seen      map[history.Outcome]int
	asked     int
	latest    history.Latest
	lastAsked int
	lastAt    time.Duration
}

func newProbeProgress(plan prober.Plan, clock *history.Clock, out io.Writer) *probeProgress {
	p := &probeProgress{clock: clock, plan: plan, out: out, seen: map[history.Outcome]int{}}
	for _, s := range plan.Streams {
		p.watches = append(p.watches, prober.NewWatch(plan, s))
	}
	return p
}

func (p *probeProgress) add(q history.Query) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.watches {
		w.Add(q)
	}
	if q.Target == history.Echo {
		return
	}
	p.seen[q.Outcome]++
	p.asked++
	p.latest.Add(q)
}

// finish is what was found in each stream.
func (p *probeProgress) finish() []probeStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []probeStream
	for i, s := range p.plan.Streams {
		w := p.watches[i]
		w.Finish()
		found = append(found, probeStream{Target: s.Target, Windows: w.Windows(), Doubts: w.Doubts()})
	}
	return found
}

// show writes progress until the returned function is called: one line that is
// rewritten on a terminal, else a line every ten seconds.
func (p *probeProgress) show() (stop func()) {
	every, write, end := 10*time.Second, func(line string) { fmt.Fprintln(p.out, line) }, func() {}
	if rewrite := reports.Rewriting(p.out); rewrite != nil {
		every, write, end = time.Second, rewrite, func() { rewrite("") }
	}
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		settle, show := time.NewTicker(time.Second), time.NewTicker(every)
		defer settle.Stop()
		defer show.Stop()
		for {
			select {
			case <-settle.C:
				p.mu.Lock()
				for _, w := range p.watches {
					w.Settle(p.clock.Now())
				}
				p.mu.Unlock()
			case <-show.C:
				write(p.line())
			case <-done:
				end()
				return
			}
		}
	})
	return func() {
		close(done)
		shown.Wait()
	}
}

func (p *probeProgress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	rate := float64(p.asked-p.lastAsked) / (now - p.lastAt).Seconds()
	p.lastAsked, p.lastAt = p.asked, now
	window := "no loss so far"
	if l := p.latest; l.Lost > 0 {
		window = fmt.Sprintf("last loss at %s", history.Seconds(l.Until))
		// A lost query is known as one only after the timeout.
		if now-l.Until < p.plan.Timeout+history.Quiet {
			window = fmt.Sprintf("losing since %s, %d lost", history.Seconds(l.From), l.Lost)
		}
	}
	return fmt.Sprintf("%4.0fs of %v  %.0f/s  %s  %s", now.Seconds(), p.plan.For, rate, outcomes(p.seen), window)
}

// outcomes writes counts in the order of history.Outcomes, without those that
// did not occur.
func outcomes(seen map[history.Outcome]int) string {
	var parts []string
	for _, outcome := range history.Outcomes() {
		if n := seen[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return strings.Join(parts, ", ")
}
