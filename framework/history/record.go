package history

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/foreign"
)

// Names of the files in a history's folder.
const (
	EventsFile  = "history.jsonl"
	QueriesFile = "queries.bin" // see docs/query-record.md
)

// Recorder writes a history as it happens. It is safe for concurrent use; the
// first error of the disk is kept and returned by Close.
type Recorder struct {
	clock *Clock
	meta  Meta

	mu      sync.Mutex
	seq     int
	events  *os.File
	sum     hash.Hash // of its lines
	file    *os.File  // of the queries
	queries *QueryWriter
	seen    []Event
	oldest  time.Duration // intended time of the oldest service query
	newest  time.Duration // intended time of the newest service query, -1 for none
	latest  Latest        // of the service's queries
	asked   int           // queries to the service that left
	lost    int           // of these
	// application is the newest run of lost requests to the application.
	application Latest
	closed      bool
	err         error
}

// Create starts a history in dir, which is made if need be, and writes meta as
// its first line. Meta's Format and Base are set from here.
func Create(dir string, clock *Clock, meta Meta) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make history folder: %w", err)
	}
	events, err := os.Create(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, QueriesFile))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create query record: %w", err), events.Close())
	}
	r := &Recorder{clock: clock, events: events, sum: sha256.New(), file: file, queries: NewQueryWriter(file, struct{}{}), newest: -1}
	meta.Format, meta.Base = FormatV1, clock.Start()
	r.meta = meta
	r.line(meta)
	return r, r.err
}

// Clock is the recorder's time base.
func (r *Recorder) Clock() *Clock { return r.clock }

// Record appends an event. An event without a time gets the present one.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if e.At == 0 {
		e.At = r.clock.Now()
	}
	r.append(e)
}

func (r *Recorder) append(e Event) {
	r.seq++
	e.Seq = r.seq
	r.seen = append(r.seen, e)
	r.line(e)
}

// Query appends a query.
func (r *Recorder) Query(q Query) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if q.Target == Service && q.Outcome != Unsent {
		if r.newest < 0 {
			r.oldest = q.Intended
		}
		r.oldest, r.newest = min(r.oldest, q.Intended), max(r.newest, q.Intended)
		r.asked++
		if q.Outcome.Lost() {
			r.lost++
		}
		r.latest.Add(q)
	}
	if q.Target == Application {
		r.application.Add(q)
	}
	r.keep(r.queries.Write(q))
}

// Events is a copy of what was recorded so far, for steps that wait for it.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// SoFar is the history as it is now, without queries and flows. It is made from memory: nothing is
// read from the disk.
func (r *Recorder) SoFar() History { return History{Meta: r.meta, Events: r.Events()} }

// EventsAfter is a copy of what was recorded after the event with that number.
func (r *Recorder) EventsAfter(seq int) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen[min(seq, len(r.seen)):])
}

// AnsweredFor shows for how long the service has answered every query, and the application every
// request, from the first query on and up to the newest one whose outcome is known.
func (r *Recorder) AnsweredFor() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest < 0 {
		return 0
	}
	return r.newest - max(r.latest.Until, r.application.Until, r.oldest)
}

// Counts are how many queries to the service have left so far, and how many of these were lost.
func (r *Recorder) Counts() (asked, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked, r.lost
}

// Latest is the newest run of lost queries to the service.
func (r *Recorder) Latest() Latest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

// Flush brings what was recorded so far to disk, where Load finds all of it and
// reports that the end is missing.
func (r *Recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.keep(r.queries.Flush())
	}
}

// Close writes the last event and closes the files. Only a history whose run
// came to its end has that event: complete is false for one that was cut short.
func (r *Recorder) Close(complete bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	if complete {
		r.append(r.ended())
	}
	r.closed = true
	r.keep(r.queries.Close(struct{}{}))
	r.keep(r.file.Close())
	r.keep(r.events.Close())
	return r.err
}

func (r *Recorder) line(v any) {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = io.MultiWriter(r.events, r.sum).Write(append(b, '\n'))
	}
	r.keep(err)
}

func (r *Recorder) keep(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("write history: %w", err)
	}
}

// History is a recorded run, read back.
type History struct {
	Meta    Meta
	Events  []Event
	Queries []Query // those of one target and mode together, in order of their intended times
	Flows   []Flow  // in the order in which they began
	// Complete reports whether the run came to its end and both files are whole.
	// Nothing passes on a history that is not.
	Complete bool
	// Damage describes what is wrong with an incomplete history.
	Damage string
}

// Load reads a history's folder. A history that was cut short is returned with
// Complete false and Damage saying where; an unreadable one is an error.
func Load(dir string) (History, error) {
	var h History
	f, err := files.Open(dir, EventsFile)
	if err != nil {
		return h, fmt.Errorf("open history: %w", err)
	}
	defer f.Close()
	in, lines := bufio.NewReader(files.Limit(f, mostEvents)), sha256.New()
	first, err := in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return h, fmt.Errorf("read %s: first line: %w", f.Name(), err)
	}
	if err := json.NewDecoder(bytes.NewReader(first)).Decode(&h.Meta); err != nil {
		return h, fmt.Errorf("read %s: first line: %w", f.Name(), err)
	}
	lines.Write(first)
	if h.Meta.Format != FormatV1 {
		return h, fmt.Errorf("read %s: format %q, this version reads %q", f.Name(), h.Meta.Format, FormatV1)
	}
	if err := h.Meta.valid(); err != nil {
		return h, fmt.Errorf("read %s: first line: %w", f.Name(), err)
	}
	if h.Events, h.Damage, err = decodeEvents(in, lines); err != nil {
		h.Damage = fmt.Sprintf("%s: after event %d: %v", EventsFile, len(h.Events), err)
		return h, nil
	}
	// Queries have no end while the cluster is restored; the flows are whole by then.
	var cutShort error
	h.Queries, cutShort = loadQueries(dir)
	if h.Flows, err = loadFlows(dir, h.Events); err != nil {
		h.Damage = fmt.Sprintf("%s: after flow %d: %v", FlowsFile, len(h.Flows), err)
	}
	if cutShort != nil {
		h.Damage = fmt.Sprintf("%s: after query %d: %v", QueriesFile, len(h.Queries), cutShort)
	}
	if h.Damage != "" {
		return h, nil
	}
	if n := len(h.Events); n == 0 || h.Events[n-1].Kind != RunEnded {
		h.Damage = "the run was cut short: its last event is missing"
		return h, nil
	}
	h.Complete = true
	return h, nil
}

// loadQueries reads the queries of a history, and puts those of one stream together, in order of
// their intended times: then they need not be copied, see QueriesWithin.
func loadQueries(dir string) (queries []Query, err error) {
	f, err := files.Open(dir, QueriesFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := NewQueryReader(f)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil { // of a sparse file, the size shows nothing
		queries = make([]Query, 0, min(info.Size()/formerSize, roomAtFirst))
	}
	defer func() {
		slices.SortFunc(queries, func(a, b Query) int {
			return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Intended, b.Intended),
				cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Done, b.Done))
		})
	}()
	for {
		q, err := r.Next()
		if errors.Is(err, io.EOF) {
			return queries, nil
		}
		if err != nil {
			return queries, err
		}
		if len(queries) == MostQueries {
			return queries, fmt.Errorf("%w: more than %s", files.ErrTooLarge, Count(MostQueries, "query"))
		}
		queries = append(queries, q)
	}
}

// What is read of a history: with more it is damaged, and so unknown.
const (
	// MostQueries is how many queries are read. They take some 300 bytes each while they are judged.
	MostQueries = 20_000_000
	// roomAtFirst is for how many of them there is room at first.
	roomAtFirst = 1 << 20
	mostEvents  = 512 << 20 // bytes of EventsFile; a drill of five minutes has about 1 MiB
	mostFlows   = 512 << 20 // bytes of FlowsFile, not compressed; a drill of five minutes has about 30 MiB
)

// valid returns an error for a first line whose names could not be ones: they become paths, and are shown.
func (m Meta) valid() error {
	if m.Scenario != "" && (m.Scenario != filepath.Base(m.Scenario) || !filepath.IsLocal(m.Scenario)) {
		return fmt.Errorf("%q cannot be the name of a scenario", m.Scenario)
	}
	names := []string{m.Scenario, m.Set, m.Handler.Name, m.Handler.Version}
	if m.Other != nil {
		names = append(names, m.Other.Name, m.Other.Version)
	}
	for _, name := range names {
		if !foreign.Named(name) {
			return fmt.Errorf("%q has characters that a name cannot have, or too many", name)
		}
	}
	return nil
}

// Clock is the one time base of a run: every record is a duration since Start.
// It is safe for concurrent use.
type Clock struct {
	start  time.Time
	anchor Anchor
}

// Anchor shows where a process's time base lies, in terms that another process
// can compare with its own. Monotonic is CLOCK_MONOTONIC in nanoseconds; it
// means the same in every process that reports the same BootID, because all of
// them read one kernel's clock (kind's nodes share their host's).
type Anchor struct {
	Wall      time.Time `json:"wall"`
	Monotonic int64     `json:"monotonic"`
	BootID    string    `json:"boot_id"`
}

// NewClock starts a time base now.
func NewClock() *Clock {
	anchor := NewAnchor()
	return &Clock{start: anchor.Wall, anchor: anchor}
}

// NewAnchor reads the wall clock, the monotonic clock and the kernel's boot id.
// If the boot id cannot be read it stays empty, which never matches another.
func NewAnchor() Anchor {
	now := time.Now()
	var ts unix.Timespec
	monotonic := int64(0)
	bootID := ""
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err == nil {
		monotonic = ts.Nano()
		if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
			bootID = strings.TrimSpace(string(b))
		}
	}
	return Anchor{Wall: now, Monotonic: monotonic, BootID: bootID}
}

// Anchor is where the base lies.
func (c *Clock) Anchor() Anchor { return c.anchor }

// Start is the base as wall clock time.
func (c *Clock) Start() time.Time { return c.start }

// Now is the time since the base.
func (c *Clock) Now() time.Duration { return time.Since(c.start) }

// Of converts a wall clock time, for instance one that an API object carries.
// API times are often whole seconds: state this if precision matters.
func (c *Clock) Of(t time.Time) time.Duration { return t.Sub(c.start) }

// Rebase returns what must be added to a duration since the other process's
// anchor to get a duration since this clock's base, and how far off that may
// be. On one kernel it is exact; between machines only wall clocks can be
// compared, and the bound is the error that those are commonly off by.
func (c *Clock) Rebase(other Anchor) (shift, bound time.Duration) {
	if other.BootID != "" && other.BootID == c.anchor.BootID {
		return time.Duration(other.Monotonic - c.anchor.Monotonic), 0
	}
	return other.Wall.Sub(c.start), wallClockBound
}

// wallClockBound is the disagreement to expect of two NTP-kept wall clocks in
// one data centre; RFC 5905 names tens of milliseconds over the internet.
const wallClockBound = 50 * time.Millisecond

// Count writes a number of things: "1 pod", "2 queries". The noun is in the singular.
func Count[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n N, noun string) string {
	switch stem, ends := strings.CutSuffix(noun, "y"); {
	case n == 1:
	case ends:
		noun = stem + "ies"
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Seconds writes an offset the way reports show it: "12.345s".
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
