package recording

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// script is a list of what was done, in order. Parts named in fails return an error.
type script struct {
	done  []string
	fails []string
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
func (s *script) startable(name string) Start {
	return func(ctx context.Context) (Stop, error) {
		if err := s.do(ctx, "start "+name); err != nil {
			return nil, err
		}
		return s.part("stop " + name), nil
	}
}

func (s *script) sources() Sources {
	return Sources{
		Watch: func(ctx context.Context) (Watching, error) {
			err := s.do(ctx, "start watch")
			return Watching{s.part("complete watch"), func() { s.done = append(s.done, "stop watch") }}, err
		},
		Facts:   s.part("facts"),
		Streams: []Start{s.startable("waits"), s.startable("queue"), s.startable("probers")},
		Last:    s.part("depth"),
	}
}

// The depth is recorded while the probers run; the queue's record is whole before the
// watch is judged complete, since a node's change follows a message.
func TestTheOrderInWhichSourcesStop(t *testing.T) {
	for _, fails := range []string{"", "depth", "stop probers", "stop queue", "complete watch"} {
		s := script{fails: []string{fails}}
		stop, err := s.sources().Start(t.Context())
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
		_, err := s.sources().Start(t.Context())
		if got := strings.Join(s.done, ", "); got != want || err == nil {
			t.Errorf("%s fails: %s, want %s (error %v)", fails, got, want, err)
		}
	}
}

// If two drills play at the same time, the first one's recording is stopped if the
// second one's does not start, also after an interrupt.
func TestARecordingThatDoesNotStartStopsTheOthers(t *testing.T) {
	s := script{fails: []string{"start second"}}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := StartAll(ctx, []Start{s.startable("first"), s.startable("second"), s.startable("third")}); err == nil {
		t.Error("no error")
	}
	if got, want := strings.Join(s.done, ", "), "start first, start second, stop first"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if slices.Contains(s.canceled, "stop first") || slices.Contains(s.timeless, "stop first") {
		t.Errorf("with an ended context %q, without a deadline %q", s.canceled, s.timeless)
	}
}
