package rundelay

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestAProcessThatMeasuresRunsFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a thread real-time")
	}
	if err := Available(DefaultProc); err != nil {
		t.Skipf("this kernel shows no run_delay: %v", err)
	}
	prober := exec.CommandContext(t.Context(), "sleep", "60")
	if err := prober.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = prober.Process.Kill(), prober.Wait() }()
	if err := first(prober.Process.Pid); err != nil {
		t.Skipf("the control group of this process has no real-time share: %v", err)
	}
	if err := unix.SchedSetAttr(prober.Process.Pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0); err != nil {
		t.Fatal(err)
	}
	ctx, enough := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, enough)
	var got recorded
	watched := func() Watched {
		return Watched{PIDs: map[int]string{prober.Process.Pid: "prober", os.Getpid(): "test"}, First: []string{"prober"}}
	}
	if err := Record(ctx, os.Args[0], history.NewClock(), watched, got.add); err != nil {
		t.Fatal(err)
	}
	policy := func(pid int) uint32 {
		attr, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		return attr.Policy
	}
	if policy(prober.Process.Pid) != unix.SCHED_FIFO || policy(os.Getpid()) == unix.SCHED_FIFO {
		t.Errorf("the prober's policy is %d, that of another process %d", policy(prober.Process.Pid), policy(os.Getpid()))
	}
	if s := got.of(history.WaitsRecorded); len(s) != 1 || s[0].Numbers[history.Raised] != 1 {
		t.Errorf("summary %+v", s)
	}
}
