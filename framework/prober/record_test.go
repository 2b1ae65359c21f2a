package prober

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// sampleRecord is a probe's record with one query of every outcome.
func sampleRecord(t *testing.T, clock *history.Clock) (text string, queries []history.Query, summary Summary) {
	t.Helper()
	var b bytes.Buffer
	plan := Plan{Streams: []QueryStream{freshStream(closedPort(t), 1000), fixedStream(closedPort(t), 500, 8)}, For: time.Minute}
	w := NewRecordWriter(&b, clock, plan)
	for i, outcome := range history.Outcomes() {
		at := time.Duration(i) * time.Millisecond
		q := history.Query{Target: history.Service, Mode: history.Fresh, Port: 40_000 + i, Intended: at, Sent: at + 1, Done: at + 2, Outcome: outcome}
		if outcome == history.Unsent {
			q.Port, q.Sent = 0, 0
		}
		if outcome == history.Mismatch {
			q.Target, q.Mode = history.Echo, history.Fixed
		}
		w.Query(q)
		queries = append(queries, q)
	}
	summary = Summary{Figures: Figures{
		Asked: len(queries) - 1, Unsent: 1, LateP99: time.Millisecond, LateMax: time.Second,
		Outcomes: map[history.Outcome]int{history.Answered: 1}, Behind: "1 of 10 queries were not sent",
	}, Echo: Figures{Asked: 1}}
	if err := w.End(summary, nil); err != nil {
		t.Fatal(err)
	}
	return b.String(), queries, summary
}

// collect reads a record into a history and returns what that holds.
func collect(t *testing.T, ctx context.Context, body io.Reader, clock *history.Clock) (Summary, history.History, error) {
	t.Helper()
	dir := t.TempDir()
	rec, err := history.Create(dir, clock, history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	summary, failed := Collect(ctx, body, rec, "worker")
	if err := rec.Close(true); err != nil {
		t.Fatal(err)
	}
	h, err := history.Load(dir)
	if err != nil || !h.Complete {
		t.Fatalf("load: %v, %s", err, h.Damage)
	}
	return summary, h, failed
}

func TestCollectMovesARecordIntoTheHistory(t *testing.T) {
	clock := history.NewClock()
	time.Sleep(20 * time.Millisecond)
	theirs := history.NewClock() // the prober's base lies later than the run's
	shift := theirs.Start().Sub(clock.Start())
	text, queries, summary := sampleRecord(t, theirs)

	got, h, err := collect(t, t.Context(), strings.NewReader(text), clock)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, summary) {
		t.Errorf("got  %+v\nwant %+v", got, summary)
	}
	if len(h.Queries) != len(queries) {
		t.Fatalf("got %d queries, want %d", len(h.Queries), len(queries))
	}
	// A history holds the queries of one target and mode together.
	slices.SortFunc(h.Queries, func(a, b history.Query) int { return cmp.Compare(a.Intended, b.Intended) })
	for i, q := range h.Queries {
		off := q.Intended - queries[i].Intended - shift
		if off.Abs() > 5*time.Millisecond { // between reading two clocks a busy machine may pause
			t.Errorf("query %d is off by %v", i, off)
		}
		moved := queries[i]
		moved.Node = "worker"
		moved.Intended, moved.Done = q.Intended, moved.Done+q.Intended-queries[i].Intended
		if moved.Outcome != history.Unsent {
			moved.Sent += q.Intended - queries[i].Intended
		}
		if q != moved {
			t.Errorf("got  %+v\nwant %+v", q, moved)
		}
	}
	started, ended := h.Events[0], h.Events[1]
	if started.Kind != history.ProberStarted || started.Node != "worker" || !reflect.DeepEqual(started.Numbers, history.Numbers{history.Number(history.Service): 1500, history.ClockBound: 0}) {
		t.Errorf("got %+v", started)
	}
	if ended.Kind != history.ProberEnded || ended.Node != "worker" || ended.Note != summary.Behind ||
		!reflect.DeepEqual(ended.Numbers, history.Numbers{history.Asked: 10, history.UnsentQueries: 1, history.Dropped: 0, history.LateP99: 0.001, history.LateMax: 1}) {
		t.Errorf("got %+v", ended)
	}
}

func TestCollectOfAnotherMachineStatesItsClocksBound(t *testing.T) {
	theirs := history.NewClock()
	text, _, _ := sampleRecord(t, theirs)
	anchor := theirs.Anchor()
	// The header is not what the checksum is for here.
	r, err := history.NewQueryReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var first preface
	if err := r.Header(&first); err != nil || first.Anchor.BootID != anchor.BootID {
		t.Fatalf("anchor %+v: %v", first.Anchor, err)
	}
	first.Anchor.BootID = "another"
	var b bytes.Buffer
	w := history.NewQueryWriter(&b, first)
	if err := w.Close(closing{Summary: &Summary{}}); err != nil {
		t.Fatal(err)
	}
	_, h, err := collect(t, t.Context(), &b, history.NewClock())
	if err != nil {
		t.Fatal(err)
	}
	if bound := h.Events[0].Numbers[history.ClockBound]; bound <= 0 {
		t.Errorf("clock_bound is %v, want more than 0", bound)
	}
}

func TestCollectTakesNoDamagedRecord(t *testing.T) {
	text, queries, summary := sampleRecord(t, history.NewClock())
	anchor := history.NewClock().Anchor()
	record := func(header, trailer any, queries ...history.Query) string {
		var b bytes.Buffer
		w := history.NewQueryWriter(&b, header)
		for _, q := range queries {
			_ = w.Write(q)
		}
		if err := w.Close(trailer); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole := preface{&anchor, &Plan{}}
	for _, c := range []struct {
		name, text, want string
	}{
		{"nothing", "", "ends after 0 queries without a summary"},
		{"cut within the summary", text[:len(text)-10], "ends after 11 queries without a summary"},
		{"cut within a query", text[:len(text)/2], "without a summary"},
		{"a query is missing", record(whole, closing{Summary: &summary}, queries[1:]...), "reports 11 queries, but 10 arrived"},
		{"no anchor", record(preface{Plan: &Plan{}}, closing{Summary: &summary}), "its header has no anchor or no plan"},
		{"no summary", record(whole, closing{}), "its trailer has no summary"},
		{"another format", "hello, this is no record", `it begins with "hello, t"`},
		{"the prober failed", record(whole, closing{Error: "no sockets"}), "the prober failed: no sockets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, h, err := collect(t, t.Context(), strings.NewReader(c.text), history.NewClock())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if len(h.Queries) > len(queries) {
				t.Errorf("got %d queries", len(h.Queries))
			}
			for _, e := range h.Events {
				if e.Kind == history.ProberEnded {
					t.Error("the prober's end was recorded")
				}
			}
		})
	}
}

func TestCollectEndsWithItsContext(t *testing.T) {
	reader, writer := io.Pipe() // a prober that reports nothing
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := collect(t, ctx, reader, history.NewClock()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestStreamWriterTellsAFailedRun(t *testing.T) {
	var b bytes.Buffer
	w := NewRecordWriter(&b, history.NewClock(), Plan{})
	if err := w.End(Summary{}, errors.New("no sockets")); err != nil {
		t.Fatal(err)
	}
	_, _, err := collect(t, t.Context(), &b, history.NewClock())
	if err == nil || !strings.Contains(err.Error(), "no sockets") {
		t.Errorf("got %v", err)
	}
}
