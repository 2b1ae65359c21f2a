package rundelay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/spotdrill/spotdrill/framework/history"
)

// DefaultProc is where Linux has its proc file system.
const DefaultProc = "/proc"

var errForm = errors.New("it has another form than expected")

// Available reports whether the kernel accounts for run_delay and shows it: it returns
// an error with the reason if it does not.
func Available(proc string) error {
	text, err := os.ReadFile(filepath.Join(proc, "self", "schedstat"))
	if err != nil {
		return fmt.Errorf("read how long processes wait for a processor: %w", err)
	}
	ran, _, err := parseSchedstat(text)
	if err != nil {
		return fmt.Errorf("read schedstat: %w", err)
	}
	if ran == 0 {
		return errors.New("the kernel does not account for run_delay (CONFIG_SCHED_INFO)")
	}
	return nil
}

// parseSchedstat reads the time that a thread ran, and the time that it waited for a
// processor.
func parseSchedstat(text []byte) (ran, waited time.Duration, err error) {
	first, rest, ok := bytes.Cut(text, []byte(" "))
	second, _, more := bytes.Cut(rest, []byte(" "))
	if !ok || !more {
		return 0, 0, errForm
	}
	a, errA := strconv.ParseInt(string(first), 10, 64)
	b, errB := strconv.ParseInt(string(second), 10, 64)
	return time.Duration(a), time.Duration(b), errors.Join(errA, errB)
}

// podUID finds the pod's UID in a process's control groups, as the kubelet names them
// with either driver: kubepods-burstable-pod1b4e28ba_2fa1.slice, or
// kubepods/burstable/pod1b4e28ba-2fa1.
var podUID = regexp.MustCompile(`[-/]pod([0-9a-f]{8}[-_][0-9a-f_-]{23,30})(?:\.slice)?/`)

// podOf is the UID of the pod that a process with these control groups belongs to; empty
// if it belongs to none.
func podOf(groups []byte) string {
	m := podUID.FindSubmatch(groups)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(string(m[1]), "_", "-")
}

// receiveErrors is how many datagrams the kernel dropped in the network namespace of a
// process because the receiving socket's buffer was full: RcvbufErrors (RFC 4113 has no
// such count, Linux does). The file is /proc/PID/net/snmp.
func receiveErrors(snmp *file) (n int64, err error) {
	if snmp == nil {
		return 0, os.ErrNotExist
	}
	var buf [4 << 10]byte // twice what it has
	read, err := snmp.read(buf[:])
	if err != nil {
		return 0, fmt.Errorf("read dropped datagrams: %w", err)
	}
	if n, err = parseReceiveErrors(string(buf[:read])); err != nil {
		return 0, fmt.Errorf("read %s: %w", snmp.Name(), err)
	}
	return n, nil
}

func parseReceiveErrors(text string) (int64, error) {
	var heads []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "Udp:":
		case heads == nil:
			heads = fields
		default:
			for i, head := range heads {
				if head == "RcvbufErrors" && i < len(fields) {
					return strconv.ParseInt(fields[i], 10, 64)
				}
			}
			return 0, errForm
		}
	}
	return 0, errForm
}

// numbers are the entries of a folder of proc that are numbers: processes, or threads.
func numbers(path string) ([]int, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// memory reports what the processes hold, if it is time.
func (s *sampler) memory(now time.Duration) {
	if len(s.processes) == 0 || s.measured > 0 && now-s.measured < history.MemoryInterval {
		return
	}
	s.measured = now
	held := map[string]int64{}
	for _, p := range s.processes {
		if n, err := anonymous(s.proc, p.PID); err == nil { // else it has just ended
			held[p.Name] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		s.record(history.NewMemoryUsed(name, history.At(now), history.With(history.Numbers{history.Bytes: float64(held[name])})))
	}
}

// steal reports how much of its processors the host took since the last time, if it is time and was much.
func (s *sampler) steal(now time.Duration) {
	within := now - s.stolenBy
	if s.stolenBy > 0 && within < history.StolenInterval {
		return
	}
	fs, err := procfs.NewFS(s.proc)
	if err != nil {
		return
	}
	stat, err := fs.Stat()
	if err != nil {
		return
	}
	stolen, cores := stat.CPUTotal.Steal-s.stolen, float64(len(stat.CPU))
	if s.stolenBy > 0 && stolen >= history.LeastStolen*cores*within.Seconds() {
		s.record(history.NewProcessorStolen(history.At(now), history.With(history.Numbers{history.Stolen: stolen, history.Within: within.Seconds(), history.Cores: cores})))
	}
	s.stolenBy, s.stolen = now, stat.CPUTotal.Steal
}

// anonymous is how many bytes of a process are resident and of no file: what a leak is made of. Bytes that
// are swapped out are not among them; nodes have no swap.
func anonymous(proc string, pid int) (int64, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return 0, err
	}
	p, err := fs.Proc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	if err == nil && status.RssAnon == 0 { // every process has some
		err = errForm
	}
	return int64(status.RssAnon), err
}

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

// Process is one whose waits are recorded.
type Process struct {
	PID  int
	Name string // what it is called in the record: a pod's namespace/name
}

// Pods finds the processes of pods by their control groups: those of every container
// that runs on this kernel, by whatever engine. It is not safe for concurrent use.
type Pods struct {
	proc string
	// known is the pod's UID of each process that was seen; empty for one of no pod.
	known map[int]string
}

// NewPods finds processes in a proc file system.
func NewPods(proc string) *Pods { return &Pods{proc: proc, known: map[int]string{}} }

// Find returns the processes of the pods whose UID has a name. The processes that hold a
// pod's namespaces (pause) never do anything and are left out.
func (p *Pods) Find(names map[string]string) ([]Process, error) {
	pids, err := numbers(p.proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	living := make(map[int]string, len(pids))
	var found []Process
	for _, pid := range pids {
		uid, seen := p.known[pid]
		if !seen {
			uid = p.read(pid)
		}
		living[pid] = uid
		if name, ok := names[uid]; ok && uid != "" {
			found = append(found, Process{pid, name})
		}
	}
	p.known = living
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// read is the UID of the pod that a process belongs to. A process that has just ended
// belongs to none.
func (p *Pods) read(pid int) string {
	dir := filepath.Join(p.proc, strconv.Itoa(pid))
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return ""
	}
	command, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || strings.TrimSpace(string(command)) == "pause" {
		return ""
	}
	return podOf(groups)
}
