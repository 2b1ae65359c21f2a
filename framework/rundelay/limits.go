package rundelay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultGroups is where Linux has its control groups.
const DefaultGroups = "/sys/fs/cgroup"

// throttleFiles are where the control groups of a process, as /proc/PID/cgroup has them,
// may show for how long its CPU limit kept it from running: of version 2, and of version 1
// with either name of the controller's folder.
func throttleFiles(root string, groups []byte) (files []string) {
	for line := range bytes.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := strings.Split(parts[1], ","); {
		case parts[1] == "":
			files = append(files, filepath.Join(root, parts[2], "cpu.stat"))
		case slices.Contains(controllers, "cpu"):
			files = append(files, filepath.Join(root, "cpu", parts[2], "cpu.stat"), filepath.Join(root, "cpu,cpuacct", parts[2], "cpu.stat"))
		}
	}
	return files
}

// openThrottle opens the file that shows for how long a process's CPU limit has kept it
// from running.
func openThrottle(proc, root string, pid int) (*file, error) {
	groups, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("read the control groups of process %d: %w", pid, err)
	}
	var all error
	for _, path := range throttleFiles(root, groups) {
		f, err := open(path)
		if err == nil {
			if _, err = throttled(f); err == nil {
				return f, nil
			}
			_ = f.Close()
		}
		all = errors.Join(all, err)
	}
	return nil, fmt.Errorf("find what the CPU limit of process %d does: %w", pid, all)
}

// throttled reads for how long a control group's CPU limit has kept it from running.
func throttled(f *file) (time.Duration, error) {
	var buf [1 << 10]byte
	n, err := f.read(buf[:])
	if err != nil {
		return 0, fmt.Errorf("read for how long a CPU limit held: %w", err)
	}
	return parseThrottled(string(buf[:n]))
}

func parseThrottled(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		unit := map[string]time.Duration{"throttled_usec": time.Microsecond, "throttled_time": time.Nanosecond}[fields[0]]
		if unit == 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		return time.Duration(n) * unit, err
	}
	// The root group has no limit, and no such line.
	return 0, nil
}
