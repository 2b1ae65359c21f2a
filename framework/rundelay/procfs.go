package rundelay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
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
