package probereport

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// Progress follows a probe: it shows how it goes and finds the outage windows.
type Progress struct {
	clock   *history.Clock
	plan    prober.Plan
	watches []*prober.Watch // one for each stream

	mu        sync.Mutex
	seen      map[history.Outcome]int
	asked     int
	latest    history.Latest
	lastAsked int
	lastAt    time.Duration
}

// NewProgress returns the progress of a probe that is about to start.
func NewProgress(plan prober.Plan, clock *history.Clock) *Progress {
	p := &Progress{clock: clock, plan: plan, seen: map[history.Outcome]int{}}
	for _, s := range plan.Streams {
		p.watches = append(p.watches, prober.NewWatch(plan, s))
	}
	return p
}

// Add takes every query as Run reports it.
func (p *Progress) Add(q history.Query) {
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

// Finish returns the findings of each stream. Call it once, at the end.
func (p *Progress) Finish() []Findings {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Findings
	for i, s := range p.plan.Streams {
		w := p.watches[i]
		w.Finish()
		found = append(found, Findings{Target: s.Target, Windows: w.Windows(), Doubts: w.Doubts()})
	}
	return found
}

// Show writes progress until the returned function is called: with rewrite, which
// replaces the line that a terminal shows, every second; without it (nil) a line to
// out every ten seconds.
func (p *Progress) Show(out io.Writer, rewrite func(line string)) (stop func()) {
	every, write, end := 10*time.Second, func(line string) { fmt.Fprintln(out, line) }, func() {}
	if rewrite != nil {
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

func (p *Progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	rate := float64(p.asked-p.lastAsked) / (now - p.lastAt).Seconds()
	p.lastAsked, p.lastAt = p.asked, now
	window := "no loss so far"
	if l := p.latest; l.Lost > 0 {
		window = fmt.Sprintf("last loss at %s", history.Seconds(l.Until))
		// A lost query is known to be lost only after its timeout.
		if now-l.Until < p.plan.Timeout+history.Quiet {
			window = fmt.Sprintf("losing since %s, %d lost", history.Seconds(l.From), l.Lost)
		}
	}
	return fmt.Sprintf("%4.0fs of %v  %.0f/s  %s  %s", now.Seconds(), p.plan.For, rate, Outcomes(p.seen), window)
}

// Outcomes lists how many queries had each outcome, in the order of
// history.Outcomes and without zeros.
func Outcomes(seen map[history.Outcome]int) string {
	var parts []string
	for _, outcome := range history.Outcomes() {
		if n := seen[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return strings.Join(parts, ", ")
}
