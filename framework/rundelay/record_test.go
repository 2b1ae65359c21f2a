package rundelay

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// TestMain makes this test the process that samples, if it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Command {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// recorded are the events of a recording of this process.
type recorded struct {
	mu     sync.Mutex
	events []history.Event
}

func (r *recorded) add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorded) of(kind history.Kind) (out []history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

func TestAnotherProcessSamples(t *testing.T) {
	if err := Available(DefaultProc); err != nil {
		t.Skipf("this kernel shows no run_delay: %v", err)
	}
	var got recorded
	clock := history.NewClock()
	ctx, enough := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, enough)
	watched := func() Watched { return Watched{PIDs: map[int]string{os.Getpid(): "test"}} }
	if err := Record(ctx, os.Args[0], clock, watched, got.add); err != nil {
		t.Fatal(err)
	}
	took := clock.Now()
	summary := got.of(history.WaitsRecorded)
	if len(summary) != 1 || summary[0].Numbers[history.Processes] != 1 || summary[0].Numbers[history.Samples] < 10 || summary[0].Numbers[history.RecorderCPU] <= 0 {
		t.Errorf("summary %+v", summary)
	}
	memory := got.of(history.MemoryUsed)
	if len(memory) == 0 || memory[0].Pod != "test" || memory[0].At <= 0 || memory[0].At > took {
		t.Errorf("memory %+v, want times of this process's clock, up to %s", memory, took)
	}
}

func TestAProcessThatCannotSampleIsAnError(t *testing.T) {
	dies := filepath.Join(t.TempDir(), "dies")
	if err := os.WriteFile(dies, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for binary, want := range map[string]string{
		"/no/such/binary": "start to sample: ",
		dies:              "exit status 3",
		"/bin/echo":       "read samples: ",
	} {
		err := Record(t.Context(), binary, history.NewClock(), func() Watched { return Watched{} }, func(history.Event) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", binary, err, want)
		}
	}
}
