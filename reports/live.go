package reports

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/spotdrill/spotdrill/framework/history"
)

// wipe empties the line that the cursor is on.
const wipe = "\r\x1b[K"

// liveEvery is how often a live line is written anew: its seconds are whole.
const liveEvery = 500 * time.Millisecond

// live is the line of the scenario that runs. Console.mu guards it.
type live struct {
	head     string
	phase    string
	begun    time.Time
	deadline time.Time // of the latest notice; zero before it
	losing   func() history.Latest

	stop    chan struct{}
	stopped sync.WaitGroup
}

// follow keeps a line up to date until unfollow.
func (c *Console) follow(head string) {
	l := &live{head: head, begun: time.Now(), stop: make(chan struct{})}
	c.mu.Lock()
	c.live = l
	c.mu.Unlock()
	l.stopped.Go(func() {
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		for {
			c.mu.Lock()
			_, _ = io.WriteString(c.out, wipe+l.line(time.Now(), columnsOf(c.out)))
			c.mu.Unlock()
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
		}
	})
}

// unfollow takes the live line away and returns its head; empty where there is
// none.
func (c *Console) unfollow() string {
	c.mu.Lock()
	l := c.live
	c.mu.Unlock()
	if l == nil {
		return ""
	}
	close(l.stop)
	l.stopped.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = nil
	_, _ = io.WriteString(c.out, wipe)
	return l.head
}

// Phase shows what the scenario that runs is at.
func (c *Console) Phase(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return
	}
	// Once it is over, and in the next attempt, no notice runs.
	if c.live.phase = name; name == "restore" || name == "arrange" {
		c.live.deadline = time.Time{}
	}
}

// Deadline shows how much time a notice leaves.
func (c *Console) Deadline(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.deadline = at
	}
}

// Losing shows the newest run of lost queries, as latest tells it.
func (c *Console) Losing(latest func() history.Latest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.losing = latest
	}
}

// line is "[3/13] name … steps, 12 s, deadline in 13 s, 41 queries lost in 0.2 s".
// Where the terminal is too narrow the name is cut: what changes comes last.
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
			text += fmt.Sprintf(", %d queries lost in %.1f s", latest.Lost, latest.Length().Seconds())
		}
	}
	return fit(fit(l.head, columns-utf8.RuneCountInString(text))+text, columns)
}

// Rewriting returns what writes a text in place of the line that a terminal shows,
// cut where it would wrap; the empty text takes the line back. It is nil where out is
// no terminal that can.
func Rewriting(out io.Writer) func(text string) {
	if !terminal(out) {
		return nil
	}
	return func(text string) { _, _ = io.WriteString(out, wipe+fit(text, columnsOf(out))) }
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

// fit cuts a text that would fill so many columns: a line that wraps cannot be
// wiped.
func fit(text string, columns int) string {
	if letters := []rune(text); len(letters) >= columns {
		return string(letters[:max(0, columns-2)]) + "…"
	}
	return text
}
