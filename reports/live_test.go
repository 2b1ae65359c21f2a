package reports

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestTheLiveLineShowsPhaseElapsedAndDeadline(t *testing.T) {
	begun := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	now := begun.Add(12900 * time.Millisecond)
	for want, l := range map[string]*live{
		"[3/13] a … 12 s":                              {},
		"[3/13] a … arrange, 12 s":                     {phase: "arrange"},
		"[3/13] a … steps, 12 s, deadline in 13 s":     {phase: "steps", deadline: now.Add(13 * time.Second)},
		"[3/13] a … settle, 12 s, deadline 2 s ago":    {phase: "settle", deadline: now.Add(-2 * time.Second)},
		"[3/13] a … steps, 12 s, 4 min left":           {phase: "steps", ends: now.Add(4*time.Minute + 10*time.Second)},
		"[3/13] a … steps, 12 s, less than 1 min left": {phase: "steps", ends: now.Add(-time.Second)},
		"[3/13] a … settle, 12 s":                      {phase: "settle", losing: func() history.Latest { return history.Latest{} }},
		"[3/13] a … settle, 12 s, 41 queries lost in 0.2 s": {phase: "settle", losing: func() history.Latest {
			return history.Latest{From: time.Second, Until: 1230 * time.Millisecond, Lost: 41}
		}},
	} {
		l.head, l.begun = "[3/13] a", begun
		if got := l.line(now, 80); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The part that changes is visible on a narrow terminal too.
func TestTheLiveLineCutsTheName(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	l := &live{head: "[3/13] invalid-json-does-not-stop-the-next-notice", phase: "steps", begun: now.Add(-9 * time.Second), deadline: now.Add(13 * time.Second)}
	for columns, want := range map[int]string{
		100: "[3/13] invalid-json-does-not-stop-the-next-notice … steps, 9 s, deadline in 13 s",
		60:  "[3/13] invalid-json-does-no… … steps, 9 s, deadline in 13 s",
		20:  "… … steps, 9 s, de…",
	} {
		if got := l.line(now, columns); got != want {
			t.Errorf("in %d columns: %q, want %q", columns, got, want)
		}
	}
}

// A line that wraps could not be erased.
func TestTheLiveLineStaysOnOneLine(t *testing.T) {
	for columns, want := range map[int]string{40: "naïve … 12 s", 13: "naïve … 12 s", 12: "naïve … 12…", 8: "naïve …", 1: "…"} {
		if got := fit("naïve … 12 s", columns); got != want {
			t.Errorf("in %d columns: %q, want %q", columns, got, want)
		}
	}
}

// A live line is wiped before anything else is written, and the result of its scenario
// gets a line of its own.
func TestNothingIsWrittenIntoTheLiveLine(t *testing.T) {
	var out bytes.Buffer
	c := NewConsole(&out, 1)
	c.head = "[1/1] a"
	c.follow("a", c.head, 0)
	c.Phase("a", "record")
	c.Deadline("a", time.Now().Add(time.Minute))
	c.Note("a note")
	c.End(passed())
	if text := out.String(); !strings.Contains(text, wipe(1)+"    a note\n") || !strings.Contains(text, wipe(1)+"[1/1] a … pass 96 s") {
		t.Errorf("%q", text)
	}
	if strings.Contains(out.String()[strings.LastIndex(out.String(), wipe(1)):], "record") {
		t.Error("the live line was left behind")
	}
}

// A drill that is in no report ends its live line too.
func TestAConcludedDrillLeavesNoLiveLine(t *testing.T) {
	var out bytes.Buffer
	c := NewConsole(&out, 1)
	c.head = "[1/1] a"
	c.follow("a", c.head, 0)
	c.Conclude("fails b, as it must")
	if c.live != nil {
		t.Error("the live line goes on")
	}
	if text := out.String(); !strings.HasSuffix(text, wipe(1)+"[1/1] a … fails b, as it must\n") {
		t.Errorf("%q", text)
	}
}

func TestProgressWithoutATerminalIsPlain(t *testing.T) {
	var out bytes.Buffer
	c := NewConsole(&out, 1)
	c.Begin("a", 0)
	c.Phase("a", "steps")
	c.Deadline("a", time.Now())
	c.Also("b")
	c.Losing("a", func() history.Latest { return history.Latest{Lost: 1} })
	c.End(passed())
	const want = "[1/1] a … pass 96 s (expected 25 s), attempt 2: 6.1 arrange + 4.0 baseline + 60.0 steps + 20.0 settle + 5.0 restore + 1.0 judge\n" +
		"    dns: 662 lost: 652 sent to 10.244.1.5 up to 1.299s after its last answer, by conntrack entries older than that (the rules last chose it at +9.031s); 10 unexplained\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// Two scenarios that are played at the same time have a line each. The cursor stays in
// the first one, from where both are wiped.
func TestScenariosAtTheSameTimeHaveALineEach(t *testing.T) {
	begun := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	c := NewConsole(io.Discard, 2)
	c.live = &lives{rows: []*live{{scenario: "a", head: "[1/2] a"}}}
	c.Also("b")
	c.Phase("b", "steps")
	c.Phase("c", "settle") // of none that runs
	for _, row := range c.live.rows {
		row.begun = begun
	}
	const want = "\r\x1b[K\n\x1b[K\r\x1b[1A" + "[1/2] a … 3 s\nnext to it, b … steps, 3 s" + "\r\x1b[1A"
	if got := c.live.text(begun.Add(3*time.Second), 80); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
