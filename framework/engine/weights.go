package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// raisedTimes is how many times the kernel's default weight the engine's parent group
// gets. By default, all containers together have the weight of one other process. With much
// more, the process that records a drill would itself wait when the containers are busy.
const raisedTimes = 8

// cgroupMount is where every distribution mounts control groups.
const cgroupMount = "/sys/fs/cgroup"

// RaisedWeights is the file of StateDir with the weights to put back.
const RaisedWeights = "cpu-weights.json"

// cpuTree is the hierarchy of control groups that divides CPU time. Groups with the same
// parent get CPU time in proportion to their weights.
type cpuTree struct {
	root   string // where it is mounted
	file   string // of each group: its weight
	normal int    // the kernel's default weight
	line   string // its controller in /proc/PID/cgroup
}

// findCPUTree returns the hierarchy below a mount point of control groups.
func findCPUTree(mount string) (cpuTree, error) {
	if exists(filepath.Join(mount, "cgroup.controllers")) {
		return cpuTree{root: mount, file: "cpu.weight", normal: 100}, nil
	}
	if v1 := filepath.Join(mount, "cpu"); exists(v1) {
		return cpuTree{root: v1, file: "cpu.shares", normal: 1024, line: "cpu"}, nil
	}
	return cpuTree{}, fmt.Errorf("%s has no CPU controller", mount)
}

// parentOf returns the group above a container's, by the content of /proc/PID/cgroup of a
// process in the container. It is "" if that process is not in this container.
func (t cpuTree) parentOf(membership, containerID string) string {
	for line := range strings.Lines(membership) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || !slices.Contains(strings.Split(fields[1], ","), t.line) {
			continue
		}
		// A group is named after its container: ID, libpod-ID, docker-ID.scope.
		if at := strings.Index(fields[2], containerID); at >= 0 {
			return path.Dir(fields[2][:at] + "container")
		}
	}
	return ""
}

// RaiseParent raises the weight of the control group that all of the engine's containers
// are in, the parent of this container's, and returns in words what it set, or why it did
// not. LowerParents puts the weight back.
func (e *Engine) RaiseParent(ctx context.Context, container string) string {
	tree, group, err := e.parentGroup(ctx, container)
	if err != nil {
		return "not raised: " + err.Error()
	}
	dir, err := StateDir()
	if err != nil {
		return "not raised: " + err.Error()
	}
	return tree.raiseInWords(group, filepath.Join(dir, RaisedWeights))
}

// parentGroup finds the group that a running container's group is in.
func (e *Engine) parentGroup(ctx context.Context, container string) (cpuTree, string, error) {
	tree, err := findCPUTree(cgroupMount)
	if err != nil {
		return tree, "", err
	}
	found, err := e.Run(ctx, "inspect", "--type", "container", "--format", "{{.Id}} {{.State.Pid}}", container)
	if err != nil {
		return tree, "", err
	}
	id, pid, _ := strings.Cut(found, " ")
	// An engine in a virtual machine counts processes of its own.
	group := tree.parentOf(contentOf("/proc/"+pid+"/cgroup"), id)
	if group == "" {
		return tree, "", errors.New("its containers do not run on this host itself")
	}
	return tree, group, nil
}

func (t cpuTree) raiseInWords(group, kept string) string {
	was, err := t.raise(group, kept)
	if err != nil {
		return fmt.Sprintf("%s, not raised: %s", group, inWords(err))
	}
	return fmt.Sprintf("%s %d (was %d)", group, raisedTimes*t.normal, was)
}

// raise raises a group's weight. It writes the former one, which it returns, to the file
// kept, unless that has it already.
func (t cpuTree) raise(group, kept string) (int, error) {
	switch group {
	case "/":
		return 0, errors.New("the root of all groups has no weight")
	case "/system.slice":
		return 0, errors.New("it also has the services of this host")
	}
	file, raised := filepath.Join(t.root, group, t.file), raisedTimes*t.normal
	now, err := readNumber(file)
	if err != nil {
		return 0, err
	}
	// Nothing is kept that may not be changed, so that LowerParents may put all of it back.
	if err := writeNumber(file, now); err != nil {
		return 0, err
	}
	former, err := readWeights(kept)
	if err != nil {
		return 0, err
	}
	_, known := former[file]
	if known && now == raised {
		return former[file], nil
	}
	switch {
	case known: // another version of this program raised it
	case now == raised: // and the file that was kept has been deleted
		former[file] = t.normal
	default:
		former[file] = now
	}
	if err := writeWeights(kept, former); err != nil {
		return 0, err
	}
	return former[file], writeNumber(file, raised)
}

// inWords shortens the errors that are to be expected of a group's file.
func inWords(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "that needs root on the engine's own host"
	case errors.Is(err, fs.ErrNotExist):
		return "it has no CPU controller"
	}
	return err.Error()
}

// LowerParents puts back the weights that RaiseParent raised.
func LowerParents() error {
	dir, err := StateDir()
	if err != nil {
		return err
	}
	return lower(filepath.Join(dir, RaisedWeights))
}

func lower(kept string) error {
	former, err := readWeights(kept)
	if err != nil {
		return err
	}
	for file, was := range former {
		// A group may be gone, as after a reboot.
		if err := writeNumber(file, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put back the CPU weight of the engine's group: %w", err)
		}
	}
	if err := os.Remove(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put back the CPU weight of the engine's group: %w", err)
	}
	return nil
}

// readWeights reads the weights to put back, by the files to write them to.
func readWeights(kept string) (map[string]int, error) {
	former := map[string]int{}
	content, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return former, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &former)
	}
	if err != nil {
		return nil, fmt.Errorf("read the CPU weights to put back: %w", err)
	}
	return former, nil
}

func writeWeights(kept string, former map[string]int) error {
	content, err := json.Marshal(former)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(kept), 0o755)
	}
	if err == nil {
		err = os.WriteFile(kept, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the CPU weight to put back: %w", err)
	}
	return nil
}

// writeNumber writes to a file that exists.
func writeNumber(path string, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(n))
	return errors.Join(err, f.Close())
}
