package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// The record of a probe is a query record (docs/query-record.md) with a preface as
// header and a closing as trailer. Its times are relative to the anchor.
type preface struct {
	Anchor *history.Anchor `json:"anchor"`
	Plan   *Plan           `json:"plan"`
}

type closing struct {
	Summary *Summary `json:"summary,omitempty"`
	Error   string   `json:"error,omitempty"` // what ended the probe
}

// RecordWriter writes the record of a probe, which Collect reads. It is safe for
// concurrent use. Flush and End return the first error.
type RecordWriter struct {
	mu  sync.Mutex
	out *history.QueryWriter
}

// NewRecordWriter begins a record. Run must get the same clock.
func NewRecordWriter(w io.Writer, clock *history.Clock, plan Plan) *RecordWriter {
	anchor := clock.Anchor()
	return &RecordWriter{out: history.NewQueryWriter(w, preface{&anchor, &plan})}
}

// Query writes a query.
func (s *RecordWriter) Query(q history.Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Write(q) // Flush and End return the error
}

// End writes the summary, or why Run failed, and flushes.
func (s *RecordWriter) End(summary Summary, failed error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed != nil {
		return s.out.Close(closing{Error: failed.Error()})
	}
	return s.out.Close(closing{Summary: &summary})
}

// Flush passes everything so far to the underlying writer.
func (s *RecordWriter) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Flush()
}

// Collect reads the record of the probe on node to its end. It records each query and
// the prober's start and end in rec, with times of rec's clock, and returns the summary.
// If body is an io.Closer, it is closed when ctx ends.
//
// A record without a summary, or with another number of queries than the summary shows,
// is an error: the missing part could be the outage.
func Collect(ctx context.Context, body io.Reader, rec *history.Recorder, node string) (Summary, error) {
	if closer, ok := body.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { _ = closer.Close() })
		defer stop()
	}
	c := collector{rec: rec, node: node}
	summary, err := c.collect(body)
	switch {
	case ctx.Err() != nil:
		return Summary{}, fmt.Errorf("collect probe record: after %s: %w", history.Count(c.queries, "query"), context.Cause(ctx))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Summary{}, fmt.Errorf("collect probe record: it ends after %d queries without a summary: "+
			"the prober or the connection to it broke: %w", c.queries, err)
	case err != nil:
		return Summary{}, fmt.Errorf("collect probe record: after %s: %w", history.Count(c.queries, "query"), err)
	}
	return summary, nil
}

type collector struct {
	rec     *history.Recorder
	node    string
	shift   time.Duration // from the prober's times to the clock's
	queries int
}

func (c *collector) collect(body io.Reader) (Summary, error) {
	r, err := history.NewQueryReader(body)
	if err != nil {
		return Summary{}, err
	}
	var first preface
	if err := r.Header(&first); err != nil {
		return Summary{}, err
	}
	if first.Anchor == nil || first.Plan == nil {
		return Summary{}, errors.New("its header has no anchor or no plan")
	}
	c.start(*first.Anchor, *first.Plan)
	for {
		q, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, err
		}
		c.query(q)
	}
	var last closing
	if err := r.Trailer(&last); err != nil {
		return Summary{}, err
	}
	switch s := last.Summary; {
	case last.Error != "":
		return Summary{}, fmt.Errorf("the prober failed: %s", last.Error)
	case s == nil:
		return Summary{}, errors.New("its trailer has no summary")
	case s.Asked+s.Echo.Asked != c.queries:
		return Summary{}, fmt.Errorf("the prober reports %s, but %d arrived", history.Count(s.Asked+s.Echo.Asked, "query"), c.queries)
	}
	c.end(last.Summary)
	return *last.Summary, nil
}

func (c *collector) start(anchor history.Anchor, plan Plan) {
	var bound time.Duration
	c.shift, bound = c.rec.Clock().Rebase(anchor)
	numbers := history.Numbers{history.ClockBound: bound.Seconds()}
	for _, s := range plan.Streams {
		numbers[history.Number(s.Target)] += float64(s.Rate)
	}
	c.rec.Record(history.NewProberStarted(c.node, history.With(numbers)))
}

func (c *collector) query(q history.Query) {
	q.Node = c.node
	q.Intended += c.shift
	q.Done += c.shift
	if q.Outcome != history.Unsent {
		q.Sent += c.shift
	}
	c.rec.Query(q)
	c.queries++
}

func (c *collector) end(s *Summary) {
	c.rec.Record(history.NewProberEnded(c.node, history.Note(s.Behind), history.With(history.Numbers{
		history.Asked: float64(s.Asked), history.UnsentQueries: float64(s.Unsent), history.Dropped: float64(s.Dropped),
		history.LateP99: s.LateP99.Seconds(), history.LateMax: s.LateMax.Seconds(),
	})))
}
