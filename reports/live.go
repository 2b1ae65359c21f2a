package reports

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/spotdrill/spotdrill/framework/history"
)

// wipe erases that many lines, from the cursor's on, and leaves the cursor in the first.
func wipe(lines int) string {
	const one = "\r\x1b[K"
	if lines < 2 {
		return one
	}
	return one + strings.Repeat("\n\x1b[K", lines-1) + up(lines-1)
}

// up moves the cursor up that many lines, to the beginning of the line.
func up(lines int) string { return fmt.Sprintf("\r\x1b[%dA", lines) }

// liveEvery is how often live lines are rewritten: they show whole seconds.
const liveEvery = 500 * time.Millisecond

// lives are the lines of the running scenarios, guarded by Console.mu.
type lives struct {
	rows    []*live
	stop    chan struct{}
	stopped sync.WaitGroup
}

// live is the line of one of them.
type live struct {
	scenario string
	head     string
	phase    string
	begun    time.Time
	deadline time.Time // of the latest notice; zero before it
	ends     time.Time // of the run, about; zero if unknown
	losing   func() history.Latest
}

// follow keeps a scenario's line up to date until unfollow.
func (c *Console) follow(scenario, head string, left time.Duration) {
	row := &live{scenario: scenario, head: head, begun: time.Now()}
	if left > 0 {
		row.ends = row.begun.Add(left)
	}
	c.followAll(row)
}

// followAll keeps lines up to date until unfollow.
func (c *Console) followAll(rows ...*live) {
	l := &lives{rows: rows, stop: make(chan struct{})}
	c.mu.Lock()
	c.live = l
	c.mu.Unlock()
	l.stopped.Go(func() {
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		for {
			c.mu.Lock()
			_, _ = io.WriteString(c.out, l.text(time.Now(), columnsOf(c.out)))
			c.mu.Unlock()
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
		}
	})
}

// Also adds a line for another scenario, which is played at the same time as the
// announced one.
func (c *Console) Also(scenario string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.rows = append(c.live.rows, &live{scenario: scenario, head: "next to it, " + scenario, begun: time.Now()})
	}
}

// Lanes shows, on a terminal, a line for each of so many lanes until EndLanes.
func (c *Console) Lanes(n int) {
	if !terminal(c.out) {
		return
	}
	rows := make([]*live, n)
	for i := range rows {
		rows[i] = &live{head: fmt.Sprintf("lane %d", i+1), phase: "set-up", begun: time.Now()}
	}
	c.followAll(rows...)
}

// InLane announces the scenario that a lane plays from now on; lanes are numbered from 1.
func (c *Console) InLane(lane int, scenario string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.rows[lane-1] = &live{scenario: scenario, head: fmt.Sprintf("lane %d: %s", lane, scenario), begun: time.Now()}
	}
}

// EndLanes erases the lines of the lanes.
func (c *Console) EndLanes() { c.unfollow() }

// unfollow erases the live lines, if there are any.
func (c *Console) unfollow() {
	c.mu.Lock()
	l := c.live
	c.mu.Unlock()
	if l == nil {
		return
	}
	close(l.stop)
	l.stopped.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = nil
	_, _ = io.WriteString(c.out, wipe(len(l.rows)))
}

// update changes the live line of a scenario, if there is one.
func (c *Console) update(scenario string, change func(*live)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return
	}
	if i := slices.IndexFunc(c.live.rows, func(l *live) bool { return l.scenario == scenario }); i >= 0 {
		change(c.live.rows[i])
	}
}

// Phase shows the phase of a running scenario.
func (c *Console) Phase(scenario, name string) {
	c.update(scenario, func(l *live) {
		l.phase = name
		if name == "restore" || name == "arrange" { // the notice of this attempt is over
			l.deadline = time.Time{}
		}
	})
}

// Deadline shows how much time is left until a notice's deadline.
func (c *Console) Deadline(scenario string, at time.Time) {
	c.update(scenario, func(l *live) { l.deadline = at })
}

// Losing shows the newest run of lost queries, as latest reports it.
func (c *Console) Losing(scenario string, latest func() history.Latest) {
	c.update(scenario, func(l *live) { l.losing = latest })
}

// text writes all lines in place of those that are shown.
func (l *lives) text(now time.Time, columns int) string {
	lines := make([]string, len(l.rows))
	for i, row := range l.rows {
		lines[i] = row.line(now, columns)
	}
	text := wipe(len(lines)) + strings.Join(lines, "\n")
	if len(lines) > 1 {
		text += up(len(lines) - 1)
	}
	return text
}

// line is "[3/13] name … steps, 12 s, deadline in 13 s, 41 queries lost in 0.2 s, 4 min left".
// If the terminal is too narrow, the name is cut: what changes comes last.
func (l *live) line(now time.Time, columns int) string {
	text := " … "
	if l.phase != "" {
		text += l.phase + ", "
	}
	text += fmt.Sprintf("%.0f s", now.Sub(l.begun).Truncate(time.Second).Seconds())
	switch left := l.deadline.Sub(now); {
	case l.deadline.IsZero():
	case left > 0:
		text += fmt.Sprintf(", deadline in %.0f s", left.Seconds())
	default:
		text += fmt.Sprintf(", deadline %.0f s ago", -left.Seconds())
	}
	if l.losing != nil {
		if latest := l.losing(); latest.Lost > 0 {
			text += fmt.Sprintf(", %s lost in %.1f s", history.Count(latest.Lost, "query"), latest.Length().Seconds())
		}
	}
	if !l.ends.IsZero() {
		text += ", " + timeLeft(l.ends.Sub(now))
	}
	return fit(fit(l.head, columns-utf8.RuneCountInString(text))+text, columns)
}

// Rewriting returns a function that replaces the terminal's current line by a text,
// cut so that it does not wrap; the empty text erases the line. It is nil if out is no
// terminal that can do this.
func Rewriting(out io.Writer) func(text string) {
	if !terminal(out) {
		return nil
	}
	return func(text string) { _, _ = io.WriteString(out, wipe(1)+fit(printable(text), columnsOf(out))) }
}

// columnsOf is how many columns the terminal has.
func columnsOf(out io.Writer) int {
	const usual = 80
	if f, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return usual
}

// fit cuts a text that would fill that many columns: a line that wraps cannot be
// wiped.
func fit(text string, columns int) string {
	if letters := []rune(text); len(letters) >= columns {
		return string(letters[:max(0, columns-2)]) + "…"
	}
	return text
}
