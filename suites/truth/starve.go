package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// starvedFor is how long a starved prober probes, at starvedRate queries/s.
const (
	starvedFor  = 10 * time.Second
	starvedRate = 1000
)

// starving is a way to starve a command of processor time.
type starving struct {
	by string
	// begin returns the prefix of the command, and a function that ends everything.
	begin func(context.Context) (under []string, end func(), err error)
}

var waysToStarve = []starving{
	{"neighbours that spin", beside},
	{fmt.Sprintf("a cgroup limit of %v every %v", quota, period), limited},
}

// spinners is the number of spinning neighbours.
const spinners = 4

// beside makes the command share one processor with spinning neighbours, at idle
// priority.
func beside(ctx context.Context) ([]string, func(), error) {
	spinning, stop := context.WithCancel(ctx)
	var started []*exec.Cmd
	end := func() {
		stop()
		for _, s := range started {
			_ = s.Wait()
		}
	}
	for range spinners {
		s := exec.CommandContext(spinning, "chrt", "--other", "0", "sh", "-c", "while :; do :; done")
		if err := s.Start(); err != nil {
			end()
			return nil, nil, fmt.Errorf("start a neighbour that spins: %w", err)
		}
		started = append(started, s)
	}
	return []string{"chrt", "--idle", "0", "taskset", "--cpu-list", "0", "env", "GOMAXPROCS=1"}, end, nil
}

// The limit is less than a probe at starvedRate queries/s needs.
const (
	quota  = time.Millisecond
	period = 200 * time.Millisecond
)

// makeGroup makes a control group of this process's: of version 2 if that is mounted, which
// has all controllers (unified), else that of one controller of version 1.
func makeGroup(controller string) (dir string, unified bool, err error) {
	name := fmt.Sprintf("spotdrill-truth-%d", os.Getpid())
	dir, unified = filepath.Join("/sys/fs/cgroup", name), true
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); errors.Is(err, fs.ErrNotExist) {
		dir, unified = filepath.Join("/sys/fs/cgroup", controller, name), false
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", false, fmt.Errorf("make a control group: %w", err)
	}
	return dir, unified, nil
}

// limited puts the command in its own control group with a quota of processor time.
func limited(context.Context) ([]string, func(), error) {
	dir, unified, err := makeGroup("cpu")
	if err != nil {
		return nil, nil, err
	}
	files := map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota.Microseconds(), period.Microseconds())}
	if !unified {
		files = map[string]string{
			"cpu.cfs_period_us": strconv.FormatInt(period.Microseconds(), 10),
			"cpu.cfs_quota_us":  strconv.FormatInt(quota.Microseconds(), 10),
		}
	}
	end := func() { _ = os.Remove(dir) }
	for file, value := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			end()
			return nil, nil, fmt.Errorf("limit a control group: %w", err)
		}
	}
	return []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir}, end, nil
}

// starved probes a healthy server with a prober that gets hardly any processor time. A
// prober that does not notice this invents windows.
func (t trial) starved(ctx context.Context, way starving) (tally, error) {
	under, end, err := way.begin(ctx)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("\nStarved by %s: skipped, %v\n", way.by, err)
		return tally{}, nil
	}
	if err != nil {
		return tally{}, err
	}
	defer end()
	t.server.fail(monotonic(), nil)
	r, _, err := probing{
		binary: t.binary, server: t.server.address(), name: name, rate: starvedRate, mode: history.Fixed, ports: 8, length: starvedFor, under: under,
	}.run(ctx)
	if err != nil {
		return tally{}, err
	}
	streams := r.Streams[0]
	var unknown time.Duration
	for _, d := range streams.Doubts {
		unknown += d.To - d.From
	}
	fmt.Printf("\nStarved by %s for %v, with a server that was well: %d windows, %d intervals of %v in all unknown, %d of %d queries unsent.\n",
		way.by, starvedFor, len(streams.Windows), len(streams.Doubts), unknown.Round(time.Millisecond), r.Summary.Unsent, r.Summary.Asked)
	result := tally{invented: len(streams.Windows)}
	if len(streams.Doubts) == 0 {
		return result, errors.New("it reported no interval of doubt")
	}
	for _, w := range streams.Windows {
		result.details = append(result.details, fmt.Sprintf("starved by %s: invented %v with %d lost", way.by, w.Length(), w.Lost))
	}
	return result, nil
}
