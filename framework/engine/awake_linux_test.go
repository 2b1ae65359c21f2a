package engine

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHowMuchTheHostTakes(t *testing.T) {
	for line, want := range map[string]float64{
		"cpu  600 0 300 99999 0 0 0 100 0 0": 0.1,
		"cpu  600 0 300 99999 0 0 0 0 0 0":   0,
		"cpu  0 0 0 0 0 0 0 0 0 0":           0,
	} {
		proc := t.TempDir()
		write(t, filepath.Join(proc, "stat"), line+"\n")
		if got, err := takenByHost(proc); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", line, got, err, want)
		}
	}
	if _, err := takenByHost(t.TempDir()); err == nil {
		t.Error("no error without the kernel's file")
	}
}

// Its priority must be the lowest, or what is to be measured would wait for it.
func TestWhatKeepsAProcessorAwake(t *testing.T) {
	mount := t.TempDir()
	write(t, filepath.Join(mount, "cgroup.controllers"), "cpu\n")
	moved := filepath.Join(mount, "cgroup.procs")
	if err := keepAwake(0, mount); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(contentOf(moved))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil || attr.Policy != unix.SCHED_IDLE {
		t.Errorf("policy %+v, %v, want SCHED_IDLE", attr, err)
	}
	var cores unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &cores); err != nil || cores.Count() != 1 || !cores.IsSet(0) {
		t.Errorf("it runs on processors %v, %v, want the first", cores, err)
	}
}

func TestWhatKeepsAProcessorAwakeEndsWithItsParent(t *testing.T) {
	parent := exec.Command("sleep", "0.1")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	awake := exec.Command("/bin/sh", "-c", spin, "awake", strconv.Itoa(parent.Process.Pid))
	if err := awake.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- awake.Wait() }()
	if err := parent.Wait(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = awake.Process.Kill()
		t.Error("it is still there 10 s after its parent")
	}
}
