package prober

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// line is one line of a probe's record as JSON Lines. The first holds anchor
// and plan, then each holds a query with times relative to the anchor, and the
// last holds the summary, or the error that ended the probe.
type line struct {
	Anchor  *history.Anchor `json:"anchor,omitempty"`
	Plan    *Plan           `json:"plan,omitempty"`
	Summary *Summary        `json:"summary,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// StreamWriter writes a probe's record as Collect reads it. It is safe for
// concurrent use. It keeps the first error and returns it from then on.
type StreamWriter struct {
	mu  sync.Mutex
	buf *bufio.Writer
	enc *json.Encoder
	err error
}

// NewStreamWriter writes the first line. The clock is the one that Run gets.
func NewStreamWriter(w io.Writer, clock *history.Clock, plan Plan) *StreamWriter {
	s := &StreamWriter{buf: bufio.NewWriterSize(w, 1<<16)}
	s.enc = json.NewEncoder(s.buf)
	anchor := anchorOf(clock)
	s.write(line{Anchor: &anchor, Plan: &plan})
	return s
}

// anchorOf is the anchor of the clock's base.
func anchorOf(clock *history.Clock) history.Anchor {
	anchor := history.NewAnchor()
	since, _ := clock.Rebase(anchor)
	anchor.Wall = clock.Start()
	anchor.Monotonic -= since.Nanoseconds()
	return anchor
}

// Query writes a query.
func (s *StreamWriter) Query(q history.Query) { s.write(q) }

// End writes the last line, the summary or else what Run failed of, and flushes.
func (s *StreamWriter) End(summary Summary, failed error) error {
	if failed != nil {
		s.write(line{Error: failed.Error()})
	} else {
		s.write(line{Summary: &summary})
	}
	return s.Flush()
}

// Flush hands what was written so far to the underlying writer.
func (s *StreamWriter) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.buf.Flush()
	}
	return s.err
}

func (s *StreamWriter) write(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.enc.Encode(v)
	}
}

// Collect reads a probe's record from another process to its end, records each
// query and the prober's start and end in rec, all in terms of clock, and
// returns the summary. A body that is an io.Closer is closed when ctx ends.
//
// A record that does not end in its summary, or does not hold as many queries
// as the summary says, is an error: what is missing could be the outage.
func Collect(ctx context.Context, body io.Reader, clock *history.Clock, rec *history.Recorder) (Summary, error) {
	if closer, ok := body.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { _ = closer.Close() })
		defer stop()
	}
	c := collector{clock: clock, rec: rec}
	lines := bufio.NewReaderSize(body, 1<<16)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if ctx.Err() != nil {
			return Summary{}, fmt.Errorf("collect probe record: after %d queries: %w", c.queries, context.Cause(ctx))
		}
		if errors.Is(err, io.EOF) {
			return Summary{}, fmt.Errorf("collect probe record: it ends after %d queries without a summary: "+
				"the prober or the connection to it broke: %w", c.queries, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return Summary{}, fmt.Errorf("collect probe record: after %d queries: %w", c.queries, err)
		}
		summary, err := c.take(text)
		if err != nil {
			return Summary{}, fmt.Errorf("collect probe record: line %d: %w", number, err)
		}
		if summary != nil {
			return *summary, nil
		}
	}
}

type collector struct {
	clock   *history.Clock
	rec     *history.Recorder
	started bool
	shift   time.Duration // from the prober's times to the clock's
	queries int
}

// take returns the summary if text is the last line.
func (c *collector) take(text []byte) (*Summary, error) {
	var l struct {
		line
		history.Query
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	switch {
	case l.Error != "":
		return nil, fmt.Errorf("the prober failed: %s", l.Error)
	case !c.started:
		if l.Anchor == nil || l.Plan == nil {
			return nil, errors.New("want anchor and plan first")
		}
		c.start(*l.Anchor, *l.Plan)
	case l.Summary != nil:
		if l.Summary.Asked != c.queries {
			return nil, fmt.Errorf("the prober asked %d queries, but %d arrived", l.Summary.Asked, c.queries)
		}
		c.end(l.Summary)
		return l.Summary, nil
	default:
		return nil, c.query(l.Query)
	}
	return nil, nil
}

func (c *collector) start(anchor history.Anchor, plan Plan) {
	var bound time.Duration
	c.shift, bound = c.clock.Rebase(anchor)
	c.started = true
	numbers := map[string]float64{"clock_bound": bound.Seconds()}
	for _, s := range plan.Streams {
		numbers[s.Target] += float64(s.Rate)
	}
	c.rec.Record(history.Event{Kind: history.ProberStarted, Numbers: numbers})
}

func (c *collector) query(q history.Query) error {
	if !slices.Contains(history.Outcomes(), q.Outcome) {
		return fmt.Errorf("query has outcome %q, want one of %v", q.Outcome, history.Outcomes())
	}
	q.Intended += c.shift
	q.Done += c.shift
	if q.Outcome != history.Unsent {
		q.Sent += c.shift
	}
	c.rec.Query(q)
	c.queries++
	return nil
}

func (c *collector) end(s *Summary) {
	c.rec.Record(history.Event{
		Kind: history.ProberEnded,
		Note: s.Behind,
		Numbers: map[string]float64{
			"asked": float64(s.Asked), "unsent": float64(s.Unsent),
			"late_p99": s.LateP99.Seconds(), "late_max": s.LateMax.Seconds(),
		},
	})
}
