package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// script is a list of what was done, in order. Parts named in fails return an error.
type script struct {
	done  []string
	fails []string
	leave bool
	// canceled holds the parts whose context had ended, timeless those with no deadline.
	canceled, timeless []string
}

func (s *script) do(ctx context.Context, part string) error {
	s.done = append(s.done, part)
	if ctx.Err() != nil {
		s.canceled = append(s.canceled, part)
	}
	if _, limited := ctx.Deadline(); !limited {
		s.timeless = append(s.timeless, part)
	}
	if slices.Contains(s.fails, part) {
		return errors.New(part + " failed")
	}
	return nil
}

func (s *script) part(name string) func(context.Context) error {
	return func(ctx context.Context) error { return s.do(ctx, name) }
}

// startable is a part that is stopped later.
func (s *script) startable(name string) startFunc {
	return func(ctx context.Context) (stopFunc, error) {
		if err := s.do(ctx, "start "+name); err != nil {
			return nil, err
		}
		return s.part("stop " + name), nil
	}
}

func (s *script) course() course {
	return course{
		phase:    func(p history.Phase) { s.done = append(s.done, "phase "+string(p)) },
		arrange:  s.part("arrange"),
		record:   s.startable("recording"),
		steps:    s.part("steps"),
		requests: s.part("requests"),
		alive:    s.part("alive"),
		failed:   func(error) { s.done = append(s.done, "record the error") },
		aftermath: func(ctx context.Context) (bool, error) {
			return s.leave, s.do(ctx, "aftermath")
		},
		clearQueue: s.part("clear the queue"),
		uninstall:  s.part("uninstall"),
		restore:    s.part("restore"),
		close: func(complete bool) error {
			return s.do(context.Background(), fmt.Sprintf("close complete=%t", complete))
		},
	}
}

func TestTheOrderOfAPlay(t *testing.T) {
	for name, c := range map[string]struct {
		script
		want string
	}{
		"all works": {script{}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests," +
			" phase restore, aftermath, clear the queue, uninstall, restore, close complete=true"},
		"the cluster cannot be arranged: nothing is recorded, all is put back": {
			script{fails: []string{"arrange"}}, "phase arrange, arrange, alive, record the error," +
				" phase restore, aftermath, clear the queue, uninstall, restore, close complete=false",
		},
		"the recording does not start: no step is taken": {
			script{fails: []string{"start recording"}}, "phase arrange, arrange, phase record, start recording, alive, record the error," +
				" phase restore, aftermath, clear the queue, uninstall, restore, close complete=false",
		},
		"a step fails: the recording is stopped, the history is incomplete": {
			script{fails: []string{"steps"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests, alive, record the error," +
				" phase restore, aftermath, clear the queue, uninstall, restore, close complete=false",
		},
		"the recording breaks off at its end: the history is incomplete": {
			script{fails: []string{"stop recording"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests, alive, record the error," +
				" phase restore, aftermath, clear the queue, uninstall, restore, close complete=false",
		},
		"the handler's log is not saved: all is put back, the history is incomplete": {
			script{fails: []string{"aftermath"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests," +
				" phase restore, aftermath, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the queue cannot be cleared: the nodes are restored, the history is incomplete": {
			script{fails: []string{"clear the queue"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests," +
				" phase restore, aftermath, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the handler cannot be uninstalled: the nodes are restored, the history is incomplete": {
			script{fails: []string{"uninstall"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests," +
				" phase restore, aftermath, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the nodes cannot be restored: the history is incomplete": {
			script{fails: []string{"restore"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests," +
				" phase restore, aftermath, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the cluster is left as it is: nothing is put back, the history is incomplete": {
			script{leave: true}, "phase arrange, arrange, phase record, start recording, steps, stop recording, requests," +
				" phase restore, aftermath, close complete=false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.script
			err := s.course().run(t.Context())
			if got := strings.Join(s.done, ", "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (err != nil) != (len(s.fails) > 0) {
				t.Errorf("error %v, of failing %q", err, s.fails)
			}
			for _, part := range s.fails {
				if err != nil && !strings.Contains(err.Error(), part+" failed") {
					t.Errorf("error %v does not have that of %s", err, part)
				}
			}
		})
	}
}

// The error has every part that failed, not only the first.
func TestAllErrorsOfAPlayAreReturned(t *testing.T) {
	s := script{fails: []string{"steps", "stop recording", "requests", "alive", "aftermath", "clear the queue", "uninstall", "restore", "close complete=false"}}
	err := s.course().run(t.Context())
	for _, part := range s.fails {
		if err == nil || !strings.Contains(err.Error(), part+" failed") {
			t.Errorf("that of %s is missing in %v", part, err)
		}
	}
}

// Ctrl-C ends the steps; what stops the recording and puts the cluster back still has a
// context, and a limited time.
func TestAnInterruptedPlayIsStoppedAndPutBack(t *testing.T) {
	var s script
	ctx, interrupt := context.WithCancel(t.Context())
	c := s.course()
	c.steps = func(ctx context.Context) error {
		interrupt()
		return s.do(ctx, "steps")
	}
	s.fails = []string{"steps"}
	if err := c.run(ctx); err == nil {
		t.Error("no error")
	}
	for _, part := range []string{"stop recording", "requests", "clear the queue", "uninstall", "restore"} {
		if !slices.Contains(s.done, part) || slices.Contains(s.canceled, part) || slices.Contains(s.timeless, part) {
			t.Errorf("%s: done %q, with an ended context %q, without a deadline %q", part, s.done, s.canceled, s.timeless)
		}
	}
	if slices.Contains(s.canceled, "alive") {
		t.Error("what died is looked for with an ended context")
	}
}

func (s *script) sources() sources {
	return sources{
		watch: func(ctx context.Context) (watch, error) {
			err := s.do(ctx, "start watch")
			return watch{s.part("complete watch"), func() { s.done = append(s.done, "stop watch") }}, err
		},
		facts:   s.part("facts"),
		waits:   s.startable("waits"),
		queue:   s.startable("queue"),
		probers: s.startable("probers"),
		last:    s.part("depth"),
	}
}

// The depth is recorded while the probers run; the queue's record is whole before the
// watch is judged complete, since a node's change follows a message.
func TestTheOrderInWhichSourcesStop(t *testing.T) {
	for _, fails := range []string{"", "depth", "stop probers", "stop queue", "complete watch"} {
		s := script{fails: []string{fails}}
		stop, err := s.sources().start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(s.done, ", "), "start watch, facts, start waits, start queue, start probers"; got != want {
			t.Errorf("starts %s, want %s", got, want)
		}
		s.done = nil
		err = stop(t.Context())
		if got, want := strings.Join(s.done, ", "), "depth, stop probers, stop queue, stop waits, complete watch, stop watch"; got != want {
			t.Errorf("with %q failing: %s, want %s", fails, got, want)
		}
		if (err != nil) != (fails != "") {
			t.Errorf("with %q failing: error %v", fails, err)
		}
	}
}

// A source that does not start leaves none running.
func TestASourceThatDoesNotStart(t *testing.T) {
	for fails, want := range map[string]string{
		"start watch":   "start watch",
		"facts":         "start watch, facts, stop watch",
		"start waits":   "start watch, facts, start waits, stop watch",
		"start queue":   "start watch, facts, start waits, start queue, stop waits, stop watch",
		"start probers": "start watch, facts, start waits, start queue, start probers, stop queue, stop waits, stop watch",
	} {
		s := script{fails: []string{fails}}
		_, err := s.sources().start(t.Context())
		if got := strings.Join(s.done, ", "); got != want || err == nil {
			t.Errorf("%s fails: %s, want %s (error %v)", fails, got, want, err)
		}
	}
}

// Of two drills that play at the same time, the first one's recording is stopped if the
// second one's does not start, also after an interrupt.
func TestARecordingThatDoesNotStartStopsTheOthers(t *testing.T) {
	s := script{fails: []string{"start second"}}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := startAll(ctx, []startFunc{s.startable("first"), s.startable("second"), s.startable("third")}); err == nil {
		t.Error("no error")
	}
	if got, want := strings.Join(s.done, ", "), "start first, start second, stop first"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if slices.Contains(s.canceled, "stop first") || slices.Contains(s.timeless, "stop first") {
		t.Errorf("with an ended context %q, without a deadline %q", s.canceled, s.timeless)
	}
}

// Whoever decides about the cluster reads the whole recording from disk.
func TestEndedIsAskedWhenTheRecordingIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	rec, err := history.Create(dir, history.NewClock(), history.Meta{Scenario: "s"})
	if err != nil {
		t.Fatal(err)
	}
	rec.Record(history.NewQueueDepth())
	rec.Query(history.Query{Target: history.Service, Mode: history.Fresh, Intended: time.Second, Sent: time.Second, Done: time.Second, Outcome: history.Answered})
	var events, queries int
	r := runner{rec: rec, Drill: Drill{Dir: dir, Ended: func() Aftermath {
		h, err := history.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		events, queries = len(h.Events), len(h.Queries)
		return SaveAndLeave
	}}}
	if after := r.ended(); after != SaveAndLeave {
		t.Errorf("aftermath %v", after)
	}
	if events != 1 || queries != 1 {
		t.Errorf("Ended finds %d events and %d queries, want 1 and 1", events, queries)
	}
	if err := rec.Close(true); err != nil {
		t.Fatal(err)
	}
	r.Ended = nil
	if after := r.ended(); after != PutBack {
		t.Errorf("aftermath %v without a decision", after)
	}
}

// All are worked on at once; the error of one is returned and ends the others.
func TestInParallel(t *testing.T) {
	err := inParallel(t.Context(), []string{"waits", "fails"}, func(ctx context.Context, item string) error {
		if item == "waits" {
			<-ctx.Done()
			return nil
		}
		return errors.New(item)
	})
	if err == nil || err.Error() != "fails" {
		t.Errorf("error %v", err)
	}
}
