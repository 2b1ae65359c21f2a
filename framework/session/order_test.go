package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

// script is a list of what was done, in order. Parts named in fails return an error.
type script struct {
	done  []string
	fails []string
	after aftermath
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
func (s *script) startable(name string) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		if err := s.do(ctx, "start "+name); err != nil {
			return nil, err
		}
		return s.part("stop " + name), nil
	}
}

func (s *script) phases() phases {
	return phases{
		begin:    func(p history.Phase) { s.done = append(s.done, "phase "+string(p)) },
		arrange:  s.part("arrange"),
		record:   s.startable("recording"),
		steps:    s.part("steps"),
		alive:    s.part("alive"),
		failed:   func(error) { s.done = append(s.done, "record the error") },
		saveLogs: s.part("save logs"),
		decide: func() aftermath {
			s.done = append(s.done, "decide")
			return s.after
		},
		saveState:  func(context.Context) { s.done = append(s.done, "save state") },
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
		"all works": {script{}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
			" phase restore, save logs, decide, clear the queue, uninstall, restore, close complete=true"},
		"the cluster cannot be arranged: nothing is recorded, all is put back": {
			script{fails: []string{"arrange"}}, "phase arrange, arrange, alive, record the error," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, close complete=false",
		},
		"the recording does not start: no step is taken": {
			script{fails: []string{"start recording"}}, "phase arrange, arrange, phase record, start recording, alive, record the error," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, close complete=false",
		},
		"a step fails: the recording is stopped, the history is incomplete": {
			script{fails: []string{"steps"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, alive, record the error," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, close complete=false",
		},
		"the recording breaks off at its end: the history is incomplete": {
			script{fails: []string{"stop recording"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording, alive, record the error," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, close complete=false",
		},
		"the handler's log is not saved: all is put back, the history is incomplete": {
			script{fails: []string{"save logs"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the queue cannot be cleared: the nodes are restored, the history is incomplete": {
			script{fails: []string{"clear the queue"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the handler cannot be uninstalled: the nodes are restored, the history is incomplete": {
			script{fails: []string{"uninstall"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the nodes cannot be restored: the history is incomplete": {
			script{fails: []string{"restore"}}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
				" phase restore, save logs, decide, clear the queue, uninstall, restore, record the error, close complete=false",
		},
		"the cluster's state is saved: all is put back": {
			script{after: saveAndRestore}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
				" phase restore, save logs, decide, save state, clear the queue, uninstall, restore, close complete=true",
		},
		"the cluster is left as it is: nothing is put back, the history is incomplete": {
			script{after: saveAndLeave}, "phase arrange, arrange, phase record, start recording, steps, stop recording," +
				" phase restore, save logs, decide, save state, close complete=false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.script
			err := s.phases().play(t.Context())
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
	s := script{fails: []string{"steps", "stop recording", "alive", "save logs", "clear the queue", "uninstall", "restore", "close complete=false"}}
	err := s.phases().play(t.Context())
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
	p := s.phases()
	p.steps = func(ctx context.Context) error {
		interrupt()
		return s.do(ctx, "steps")
	}
	s.fails = []string{"steps"}
	if err := p.play(ctx); err == nil {
		t.Error("no error")
	}
	for _, part := range []string{"stop recording", "clear the queue", "uninstall", "restore"} {
		if !slices.Contains(s.done, part) || slices.Contains(s.canceled, part) || slices.Contains(s.timeless, part) {
			t.Errorf("%s: done %q, with an ended context %q, without a deadline %q", part, s.done, s.canceled, s.timeless)
		}
	}
	if slices.Contains(s.canceled, "alive") {
		t.Error("what died is looked for with an ended context")
	}
}
