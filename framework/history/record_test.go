package history

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorded leaves a history of three events and 20 queries.
func recorded(t *testing.T, complete bool) (dir string, events []Event, queries []Query) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "deep", "down")
	r, err := Create(dir, NewClock(), Meta{Scenario: "s", Set: "fast", Attempt: 1, Handler: Handler{Name: "builtin", Taint: "a/b"}})
	if err != nil {
		t.Fatal(err)
	}
	said, until := 90*time.Millisecond, 20*time.Second
	r.Record(NewNodePresent("n", "spot", At(ms(1))))
	r.Record(NewNoticePut("", "", "n", At(ms(100)), Said(said), Until(until)))
	r.Record(NewQueueDepth(At(ms(200)), With(Numbers{Visible: 0, Invisible: 1.5})))
	for i := range 20 {
		q := Query{Target: Service, Mode: Fixed, Port: 1024 + i, Intended: ms(i), Sent: ms(i), Done: ms(i + 2), Outcome: Answered}
		r.Query(q)
		queries = append(queries, q)
	}
	events = r.Events()
	if err := r.Close(complete); err != nil {
		t.Fatal(err)
	}
	return dir, events, queries
}

func TestRoundTrip(t *testing.T) {
	dir, events, queries := recorded(t, true)
	h, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !h.Complete || h.Damage != "" {
		t.Errorf("complete %t, damage %q", h.Complete, h.Damage)
	}
	if h.Meta.Format != FormatV1 || h.Meta.Scenario != "s" || h.Meta.Handler.Taint != "a/b" || h.Meta.Base.IsZero() {
		t.Errorf("meta %+v", h.Meta)
	}
	if !reflect.DeepEqual(h.Events[:3], events) || h.Events[3].Kind != RunEnded || len(h.Events) != 4 {
		t.Errorf("events %+v, recorded %+v", h.Events, events)
	}
	for i, e := range h.Events {
		if e.Seq != i+1 {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	if !reflect.DeepEqual(h.Queries, queries) {
		t.Errorf("%d queries of %d came back, or changed", len(h.Queries), len(queries))
	}
}

func TestARunCutShortIsNotComplete(t *testing.T) {
	dir, _, _ := recorded(t, false)
	h, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if h.Complete || !strings.Contains(h.Damage, "cut short") {
		t.Errorf("complete %t, damage %q", h.Complete, h.Damage)
	}
}

// Cut anywhere, a file is either refused or known to be damaged.
func TestATruncatedFileIsNeverComplete(t *testing.T) {
	for _, name := range []string{EventsFile, QueriesFile} {
		dir, _, _ := recorded(t, true)
		file := filepath.Join(dir, name)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The events' last byte is a line break, which reports nothing.
		for n := range len(bytes.TrimSpace(whole)) {
			if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := Load(dir)
			if err == nil && (h.Complete || h.Damage == "") {
				t.Fatalf("%s cut to %d of %d bytes: complete %t, damage %q", name, n, len(whole), h.Complete, h.Damage)
			}
		}
	}
}

// A record that is not as it was written is known to be damaged, whichever bit it is. What changes
// nothing that is read is no matter: the case of a field's name, for example.
func TestAFlippedBitIsNoticed(t *testing.T) {
	dir, _, _ := recorded(t, true)
	before, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, EventsFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(whole) * 8 {
		flipped := bytes.Clone(whole)
		flipped[i/8] ^= 1 << (i % 8)
		if err := os.WriteFile(file, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		last := bytes.LastIndexByte(whole[:len(whole)-1], '\n')
		after, err := Load(dir)
		if err == nil && after.Complete && (i/8 <= last || after.Events[len(after.Events)-1].At != before.Events[len(before.Events)-1].At) {
			t.Errorf("bit %d of byte %d is not noticed: %s", i%8, i/8, flipped[max(0, i/8-20):min(len(flipped), i/8+20)])
		}
	}
}

// Recordings of earlier versions have no checksum.
func TestARecordWithoutAChecksumIsComplete(t *testing.T) {
	dir, _, _ := recorded(t, true)
	file := filepath.Join(dir, EventsFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	former := regexp.MustCompile(`,"reason":"[0-9a-f]{64}"|,"numbers":{"clock_step":[^}]*}`).ReplaceAll(whole, nil)
	if err := os.WriteFile(file, former, 0o600); err != nil || len(former) > len(whole)-80 {
		t.Fatal(err, string(former))
	}
	if h, err := Load(dir); err != nil || !h.Complete {
		t.Errorf("complete %t, damage %q, %v", h.Complete, h.Damage, err)
	}
}

// API objects have wall clock times, the queries monotonic ones.
func TestAClockThatWasSetMakesARecordUnknown(t *testing.T) {
	for step, complete := range map[time.Duration]bool{0: true, 900 * time.Millisecond: true, 5 * time.Second: false, -3 * time.Minute: false} {
		dir := t.TempDir()
		clock := NewClock()
		r, err := Create(dir, clock, Meta{})
		if err != nil {
			t.Fatal(err)
		}
		clock.anchor.Wall = clock.anchor.Wall.Add(-step) // as if it had been set since then
		if err := r.Close(true); err != nil {
			t.Fatal(err)
		}
		h, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if h.Complete != complete || !complete && !strings.Contains(h.Damage, "the clock of this machine was set by") {
			t.Errorf("%v: complete %t, damage %q", step, h.Complete, h.Damage)
		}
	}
}

func TestDamageSaysWhere(t *testing.T) {
	dir, _, _ := recorded(t, true)
	file := filepath.Join(dir, EventsFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"half a line":   {bytes.Join([][]byte{lines[0], lines[1], lines[2][:20]}, nil), EventsFile + ": after event 1: unexpected EOF"},
		"not JSON":      {bytes.Join([][]byte{lines[0], lines[1], lines[2], []byte("oops\n")}, nil), EventsFile + ": after event 2: invalid character 'o'"},
		"missing lines": {bytes.Join(lines[:3], nil), "the run was cut short: its last event is missing"},
		"only meta":     {lines[0], "the run was cut short: its last event is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if h.Complete || !strings.HasPrefix(h.Damage, c.want) {
				t.Errorf("complete %t, damage %q, want %q", h.Complete, h.Damage, c.want)
			}
		})
	}
}

func TestWithoutQueriesAHistoryIsDamaged(t *testing.T) {
	dir, _, _ := recorded(t, true)
	if err := os.Remove(filepath.Join(dir, QueriesFile)); err != nil {
		t.Fatal(err)
	}
	h, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if h.Complete || !strings.Contains(h.Damage, QueriesFile) || len(h.Events) != 4 {
		t.Errorf("complete %t, damage %q, %d events", h.Complete, h.Damage, len(h.Events))
	}
}

func TestWhatIsNoHistoryIsAnError(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"empty":         {"", "first line: EOF"},
		"not JSON":      {"hello", "first line: invalid character"},
		"other format":  {`{"format":"spotdrill.dev/history/v9"}`, `format "spotdrill.dev/history/v9", this version reads "spotdrill.dev/history/v1"`},
		"without one":   {`{}`, `format ""`},
		"another thing": {`[1]`, "first line: json: cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, EventsFile), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "open history: ") {
		t.Errorf("error %v", err)
	}
}

func TestCreateErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(file, NewClock(), Meta{}); err == nil {
		t.Error("made a history in a file")
	}
	for _, name := range []string{EventsFile, QueriesFile} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(dir, NewClock(), Meta{}); err == nil {
			t.Errorf("made a history over a folder %s", name)
		}
	}
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	r, err := Create(dir, NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				r.Record(NewSQSCall("", "", ""))
				r.Query(Query{Target: Service, Outcome: Answered})
				r.Events()
				r.AnsweredFor()
			}
		})
	}
	wg.Wait()
	if err := r.Close(true); err != nil {
		t.Fatal(err)
	}
	h, err := Load(dir)
	if err != nil || !h.Complete || len(h.Events) != writers*each+1 || len(h.Queries) != writers*each {
		t.Errorf("%d events, %d queries, complete %t (%v)", len(h.Events), len(h.Queries), h.Complete, err)
	}
	for i, e := range h.Events {
		if e.Seq != i+1 {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
}

func TestWhatComesAfterCloseIsNotRecorded(t *testing.T) {
	dir := t.TempDir()
	r, err := Create(dir, NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(true); err != nil {
		t.Fatal(err)
	}
	r.Record(NewSQSCall("", "", ""))
	r.Query(Query{})
	if err := r.Close(false); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if h, err := Load(dir); err != nil || len(h.Events) != 1 || !h.Complete {
		t.Errorf("%+v (%v)", h, err)
	}
}

func TestAFailingDiskIsReportedByClose(t *testing.T) {
	r, err := Create(t.TempDir(), NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.events.Close(); err != nil {
		t.Fatal(err)
	}
	r.Record(NewSQSCall("", "", ""))
	if err := r.Close(true); err == nil || !strings.HasPrefix(err.Error(), "write history: ") {
		t.Errorf("error %v", err)
	}
}

func TestAnEventGetsThePresentTime(t *testing.T) {
	r, err := Create(t.TempDir(), NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(true) }()
	before := r.Clock().Now()
	r.Record(NewSQSCall("", "", ""))
	r.Record(NewSQSCall("", "", "", At(ms(7))))
	after := r.Clock().Now()
	if e := r.Events(); e[0].At < before || e[0].At > after || e[1].At != ms(7) {
		t.Errorf("between %s and %s: %+v", before, after, e)
	}
}

func TestAnsweredFor(t *testing.T) {
	for name, c := range map[string]struct {
		queries []Query
		want    time.Duration
	}{
		"nothing asked":               {nil, 0},
		"all answered":                {[]Query{{Intended: ms(100), Outcome: Answered}, {Intended: ms(900), Outcome: Answered}}, ms(800)},
		"lost at the end":             {[]Query{{Intended: ms(100), Outcome: Answered}, {Intended: ms(900), Outcome: Timeout}}, 0},
		"lost, then answered":         {[]Query{{Intended: ms(100), Outcome: Timeout}, {Intended: ms(900), Outcome: Answered}}, ms(800)},
		"the loss is known later":     {[]Query{{Intended: ms(900), Outcome: Answered}, {Intended: ms(300), Outcome: Timeout}}, ms(600)},
		"unsent ones show nothing":    {[]Query{{Intended: ms(100), Outcome: Answered}, {Intended: ms(900), Outcome: Unsent}}, 0},
		"the control reports nothing": {[]Query{{Intended: ms(100), Outcome: Answered}, {Target: Control, Intended: ms(900), Outcome: Answered}}, 0},
		"nor does a control's loss":   {[]Query{{Intended: ms(100), Outcome: Answered}, {Target: Control, Intended: ms(500), Outcome: Timeout}, {Intended: ms(900), Outcome: Answered}}, ms(800)},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Create(t.TempDir(), NewClock(), Meta{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close(true) }()
			for _, q := range c.queries {
				if q.Target == "" {
					q.Target = Service
				}
				r.Query(q)
			}
			if got := r.AnsweredFor(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A recording that is loaded before its end has everything recorded so far, and reports
// that its end is missing.
func TestFlushBringsWhatThereIsToDisk(t *testing.T) {
	dir := t.TempDir()
	rec, err := Create(dir, NewClock(), Meta{Scenario: "a"})
	if err != nil {
		t.Fatal(err)
	}
	rec.Record(Restore.Begins())
	rec.Query(Query{Target: Service, Mode: Fresh, Outcome: Answered})
	rec.Query(Query{Target: Service, Mode: Fresh, Outcome: Timeout})
	rec.Flush()
	h, err := Load(dir)
	if err != nil || len(h.Events) != 1 || len(h.Queries) != 2 || h.Complete || h.Damage == "" {
		t.Errorf("%d events, %d queries, complete %t, damage %q (%v)", len(h.Events), len(h.Queries), h.Complete, h.Damage, err)
	}
	if err := rec.Close(true); err != nil {
		t.Fatal(err)
	}
	rec.Flush() // does nothing any more
	if h, err := Load(dir); err != nil || !h.Complete || len(h.Queries) != 2 {
		t.Errorf("closed: complete %t, %d queries (%v)", h.Complete, len(h.Queries), err)
	}
}

func TestRebase(t *testing.T) {
	base := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	c := &Clock{start: base, anchor: Anchor{Wall: base, Monotonic: int64(100 * time.Second), BootID: "a"}}
	for name, x := range map[string]struct {
		other        Anchor
		shift, bound time.Duration
	}{
		"started later on this kernel": {Anchor{Wall: base, Monotonic: int64(103 * time.Second), BootID: "a"}, 3 * time.Second, 0},
		// The wall clock stepped; the kernel's monotonic one does not.
		"this kernel, wall clock set back": {Anchor{Wall: base.Add(-time.Hour), Monotonic: int64(103 * time.Second), BootID: "a"}, 3 * time.Second, 0},
		"started earlier on this kernel":   {Anchor{Wall: base, Monotonic: int64(99 * time.Second), BootID: "a"}, -time.Second, 0},
		"another machine":                  {Anchor{Wall: base.Add(2 * time.Second), Monotonic: int64(100 * time.Second), BootID: "b"}, 2 * time.Second, wallClockBound},
		"a machine without a boot id":      {Anchor{Wall: base.Add(2 * time.Second), Monotonic: int64(100 * time.Second)}, 2 * time.Second, wallClockBound},
	} {
		t.Run(name, func(t *testing.T) {
			if shift, bound := c.Rebase(x.other); shift != x.shift || bound != x.bound {
				t.Errorf("shift %s within %s, want %s within %s", shift, bound, x.shift, x.bound)
			}
		})
	}
}

func TestTwoUnknownBootsAreNotOne(t *testing.T) {
	c := &Clock{start: time.Unix(0, 0), anchor: Anchor{Wall: time.Unix(0, 0)}}
	if _, bound := c.Rebase(Anchor{Wall: time.Unix(5, 0)}); bound != wallClockBound {
		t.Errorf("rebased exactly, bound %s", bound)
	}
}

func TestAClockRebasesAnAnchorOfItsOwnKernel(t *testing.T) {
	c := NewClock()
	if c.anchor.BootID == "" {
		t.Skip("this system has no boot id")
	}
	before := c.Now()
	shift, bound := c.Rebase(NewAnchor())
	if after := c.Now(); bound != 0 || shift < before-time.Millisecond || shift > after+time.Millisecond {
		t.Errorf("shift %s within %s, not between %s and %s", shift, bound, before, after)
	}
}

func TestClock(t *testing.T) {
	c := NewClock()
	if a, b := c.Now(), c.Now(); a < 0 || b < a {
		t.Errorf("went from %s to %s", a, b)
	}
	if got := c.Of(c.Start().Add(-3 * time.Second)); got != -3*time.Second {
		t.Errorf("3 s before the base is %s", got)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{12345 * time.Millisecond: "12.345s", 0: "0.000s", -1500 * time.Millisecond: "-1.500s"} {
		if got := Seconds(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
