package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// report is the output of spotdrill probe --json.
type report struct {
	Start   history.Anchor
	Summary prober.Summary
	Streams []struct {
		Windows []history.Window
		Doubts  []history.Doubt
	}
}

// usage is the resources that a program used.
type usage struct {
	cpu    time.Duration
	memory int64 // bytes, at most
}

// command runs a program and returns its output and usage. Its memory is read while it
// runs: the kernel's figure after its end may be that of this program, which it was
// forked from.
func command(ctx context.Context, args ...string) (string, usage, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return "", usage{}, err
	}
	ended, most := make(chan struct{}), make(chan int64, 1)
	go func() { most <- memory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	took := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	u := usage{cpu: time.Duration(took.Utime.Nano() + took.Stime.Nano()), memory: <-most}
	if err != nil {
		err = fmt.Errorf("%q: %w: %s", args, err, errs.String())
	}
	return out.String(), u, err
}

// sampleEvery is how often the memory of a program is read.
const sampleEvery = 50 * time.Millisecond

// memory is the most memory that a process had in use until it ended, in bytes.
func memory(pid int, ended <-chan struct{}) (most int64) {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if m := peakLine.FindSubmatch(status); m != nil {
			kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
			most = max(most, kib<<10)
		}
		select {
		case <-every.C:
		case <-ended:
			return most
		}
	}
}

var peakLine = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// patience is the timeout of queries. At 20,000/s from fresh ports it keeps the number of
// open sockets below the usual limit of 20,000 files.
const patience = 700 * time.Millisecond

// probing is one run of spotdrill probe.
type probing struct {
	binary string
	server string
	name   string
	rate   int
	mode   history.Mode
	ports  int // in fixed mode
	length time.Duration
	under  []string // a command that it is run by
}

func (p probing) run(ctx context.Context) (report, usage, error) {
	args := slices.Concat(p.under, []string{
		p.binary, "probe", "--server", p.server,
		"--rate", strconv.Itoa(p.rate), "--mode", string(p.mode), "--for", p.length.String(), "--timeout", patience.String(), "--json", "--no-check",
	})
	if !p.mode.OfApplications() {
		args = append(args, "--name", p.name)
	}
	if p.mode == history.Fixed || p.mode == history.HTTPKept {
		args = append(args, "--ports", strconv.Itoa(p.ports))
	}
	out, took, err := command(ctx, args...)
	if err != nil {
		return report{}, took, err
	}
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return report{}, took, fmt.Errorf("read the report of %q: %w", args, err)
	}
	if len(r.Streams) != 1 {
		return report{}, took, fmt.Errorf("%q reports %d streams, want 1", args, len(r.Streams))
	}
	base := time.Duration(r.Start.Monotonic)
	for i := range r.Streams[0].Windows {
		w := &r.Streams[0].Windows[i]
		w.From, w.To = w.From+base, w.To+base
	}
	for i := range r.Streams[0].Doubts {
		d := &r.Streams[0].Doubts[i]
		d.From, d.To = d.From+base, d.To+base
	}
	return r, took, nil
}
