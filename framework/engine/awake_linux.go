package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// leastTaken is the share of the processor time that this machine wanted since it booted, and that its host gave
// to others: with less, the processors of a virtual machine may halt.
const leastTaken = 0.01

// spin runs on one processor for as long as the process whose id is its argument.
const spin = `while kill -0 "$1"; do i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; done 2>/dev/null`

// KeepAwake keeps the processors of a virtual machine from halting until this process ends, and returns in words what it
// did, or why it did nothing. A processor that has nothing to do halts, and its host runs it again when it likes: the machine
// waits most when it is half busy, as in a drill. So a process of the kernel's lowest priority (SCHED_IDLE, sched(7)) runs on
// each processor that this process may use; any other process comes before it. It is only done where a host takes processor
// time (steal in proc_stat(5)).
func KeepAwake() string {
	taken, err := takenByHost(procfs.DefaultMountPoint)
	switch {
	case err != nil:
		return "not kept awake: " + err.Error()
	case taken < leastTaken:
		return "not kept awake: no host takes processor time"
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return "not kept awake: " + err.Error()
	}
	kept, allowed := 0, own.Count()
	for core := 0; kept < allowed; core++ {
		if !own.IsSet(core) {
			continue
		}
		if err := keepAwake(core, cgroupMount); err != nil {
			return fmt.Sprintf("%d of %d kept awake: %s", kept, allowed, inWords(err))
		}
		kept++
	}
	return fmt.Sprintf("kept awake: the host took %.0f %% of the processor time since boot", 100*taken)
}

// takenByHost is the share of the processor time that was wanted since boot, and that the host gave to others.
func takenByHost(proc string) (float64, error) {
	kernel, err := procfs.NewFS(proc)
	if err != nil {
		return 0, fmt.Errorf("read the time that the host takes: %w", err)
	}
	stat, err := kernel.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the time that the host takes: %w", err)
	}
	t := stat.CPUTotal
	if t.Steal == 0 {
		return 0, nil
	}
	return t.Steal / (t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal), nil
}

// keepAwake starts what runs on a processor when nothing else does. It moves it to the root of all control groups: within
// another group it would have that group's share, whatever its own priority is.
func keepAwake(core int, mount string) error {
	tree, err := findCPUTree(mount)
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", spin, "awake", strconv.Itoa(os.Getpid())) //nolint:noctx // it ends with this process
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("keep processor %d awake: %w", core, err)
	}
	go func() { _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	if err := lowest(pid, core, tree.root); err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("keep processor %d awake: %w", core, err)
	}
	return nil
}

// lowest gives a process the lowest priority of all, on one processor. If the kernel groups the processes of a session
// (CONFIG_SCHED_AUTOGROUP), the group needs it too.
func lowest(pid, core int, root string) error {
	if err := unix.SchedSetAttr(pid, &unix.SchedAttr{Policy: unix.SCHED_IDLE}, 0); err != nil {
		return err
	}
	group := fmt.Sprintf("/proc/%d/autogroup", pid)
	if err := os.WriteFile(group, []byte("19"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return err
	}
	var only unix.CPUSet
	only.Set(core)
	return unix.SchedSetaffinity(pid, &only)
}
