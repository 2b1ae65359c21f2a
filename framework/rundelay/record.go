// Package rundelay records how long processes waited for a processor: the run_delay that
// the kernel keeps for each thread (Documentation/scheduler/sched-stats.rst), together
// with the packets that the kernel dropped meanwhile because a socket's receive buffer
// was full, and the memory that processes hold.
//
// A server that gets no processor cannot read its socket. Queries that it loses then are
// not the fault of what a drill does. A server that is overloaded runs all the time, and
// a process that is stopped or frozen waits for no processor: neither is on this record.
package rundelay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Command is the name of the command of spotdrill that calls Serve.
const Command = "waits"

// Watched are the processes to watch, each with its name in the record: those of pods, by
// the pod's UID, and single ones, by id.
type Watched struct {
	Pods map[string]string `json:"pods,omitempty"`
	PIDs map[int]string    `json:"pids,omitempty"`
	// First are the names of those that the kernel is to run before all others, as it does
	// with the process that samples: they measure as well.
	First []string `json:"first,omitempty"`
}

func (w Watched) equal(other Watched) bool {
	return maps.Equal(w.Pods, other.Pods) && maps.Equal(w.PIDs, other.PIDs) && slices.Equal(w.First, other.First)
}

// line is what the process that samples writes: first where its time base lies, then the
// events.
type line struct {
	Anchor *history.Anchor `json:"anchor,omitempty"`
	Event  *history.Event  `json:"event,omitempty"`
}

// exitTimeout is how long the process that samples may take to end. It takes milliseconds.
const exitTimeout = 10 * time.Second

// Record has the binary, which must be spotdrill, sample in a process of its own until ctx
// ends, and passes its events on with times of the clock. In this process a sampler would
// have to wait for the other goroutines, which the kernel may run late: for a lock that one
// of them holds, or for the garbage collector, which stops all of them.
func Record(ctx context.Context, binary string, clock *history.Clock, watched func() Watched, record func(history.Event)) error {
	living, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	cmd := exec.CommandContext(living, binary, Command)   //nolint:gosec // the binary is this program's own
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start to sample: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start to sample: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start to sample: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(pass(out, clock, record), cmd.Wait()) }()
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	var last Watched
	for first := true; ; first = false {
		if now := watched(); first || !now.equal(last) {
			if err := json.NewEncoder(in).Encode(now); err != nil {
				return fmt.Errorf("describe what to sample: %w", errors.Join(err, in.Close(), <-ended))
			}
			last = Watched{maps.Clone(now.Pods), maps.Clone(now.PIDs), slices.Clone(now.First)}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("sampling ended early: %w", errors.Join(err, in.Close()))
		case <-ctx.Done():
			late := time.AfterFunc(exitTimeout, kill)
			err := errors.Join(in.Close(), <-ended)
			late.Stop()
			return err
		case <-tick.C:
		}
	}
}

// pass reads what the process that samples writes, until it ends.
func pass(out io.Reader, clock *history.Clock, record func(history.Event)) error {
	decoder := json.NewDecoder(out)
	shift := time.Duration(0)
	for {
		var l line
		err := decoder.Decode(&l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read samples: %w", err)
		}
		if l.Anchor != nil {
			shift, _ = clock.Rebase(*l.Anchor)
		}
		if l.Event != nil {
			if l.Event.At != 0 {
				l.Event.At += shift
			}
			record(*l.Event)
		}
	}
}

// Serve samples for Record. It reads what to watch from in, until that ends, and writes the
// events to out. The kernel runs the threads of this process before all others: what records
// waiting must not wait itself.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	firstOfProcess()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	clock, encoder := history.NewClock(), json.NewEncoder(out)
	anchor := clock.Anchor()
	if err := encoder.Encode(line{Anchor: &anchor}); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	var watched atomic.Pointer[Watched]
	watched.Store(&Watched{})
	go func() {
		defer enough()
		for decoder := json.NewDecoder(in); ; {
			var w Watched
			if decoder.Decode(&w) != nil { // in has ended
				return
			}
			watched.Store(&w)
		}
	}()
	var failed error
	write := func(e history.Event) {
		if err := encoder.Encode(line{Event: &e}); err != nil {
			failed = err
		}
	}
	pods := NewPods(DefaultProc)
	s := sampler{
		proc: DefaultProc, groups: DefaultGroups, now: clock.Now, record: write, processes: map[Process]*process{},
		find: func() ([]Process, error) {
			found, err := pods.Find(watched.Load().Pods)
			for pid, name := range watched.Load().PIDs {
				found = append(found, Process{pid, name})
			}
			return found, err
		},
		first: func(name string) bool { return slices.Contains(watched.Load().First, name) },
	}
	err := s.run(ctx)
	return errors.Join(err, failed)
}
