package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// State reports whether a machine meets a prerequisite of drills.
type State string

// The states of a prerequisite.
const (
	OK        State = "ok"
	Automatic State = "automatic" // missing now; the next run provides it
	Warning   State = "warning"   // drills run, with limitations
	Missing   State = "missing"   // no drill can run
)

// Prerequisite is one thing that drills need of a machine, as Examine found it.
type Prerequisite struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Fix is the command that provides it; empty if it is there or if no command does.
	Fix string `json:"fix,omitempty"`
}

// What a machine must have. The six containers of a system took 3.7 GiB in all when
// measured, and their images and volumes 7 GiB.
const (
	coresNeeded  = 2
	memoryNeeded = 6 << 30 // bytes
)

// Examine checks what drills need of the engine and its host. It changes nothing but
// Podman's configuration in StateDir. The engine is nil if none answers.
func Examine(ctx context.Context) (*Engine, []Prerequisite) {
	eng, engineFound := examineEngine(ctx)
	found := []Prerequisite{examineSystem(), engineFound}
	if runtime.GOOS == "linux" {
		found = append(found, inotifyInstances().examine("inotify instances"), examineModules(eng), examineRoot(), examineWeight(ctx, eng))
	}
	return eng, append(found, examineSize())
}

func examineSystem() Prerequisite {
	f := Prerequisite{What: "system", State: OK, Detail: runtime.GOOS + "/" + runtime.GOARCH}
	if runtime.GOOS != "linux" {
		f.State, f.Detail = Warning, f.Detail+": drills run in the engine's virtual machine, whose clock and load cannot be observed from here"
	}
	return f
}

func examineEngine(ctx context.Context) (*Engine, Prerequisite) {
	f := Prerequisite{What: "container engine", State: OK}
	eng, err := Detect(ctx, Options{})
	if err == nil {
		f.Detail = eng.Name
		return eng, f
	}
	debian := debianLike(contentOf("/etc/os-release"))
	f.State, f.Detail, f.Fix = Missing, err.Error(), engineFix(err, debian)
	if debian && os.Geteuid() == 0 && errors.Is(err, errNoEngine) {
		f.State, f.Fix = Automatic, installCommand(podmanPackages()...)
	}
	return nil, f
}

func (l hostLimit) examine(what string) Prerequisite {
	f := Prerequisite{What: what, State: OK}
	now, err := readNumber(l.path)
	if err != nil {
		f.State, f.Detail = Warning, err.Error()
		return f
	}
	f.Detail = fmt.Sprintf("%d, and %d are needed", now, l.needed)
	if now < l.needed {
		f.State, f.Fix = stateForRoot(), l.command()
	}
	return f
}

func examineModules(eng *Engine) Prerequisite {
	f := Prerequisite{What: "folder " + modulesPath, State: OK, Detail: "kind mounts it into its nodes"}
	if (eng == nil || eng.Name == podman) && !exists(modulesPath) {
		f.State, f.Fix = stateForRoot(), asRoot("mkdir "+modulesPath)
	}
	return f
}

// stateForRoot is the state of a prerequisite that a run as root provides.
func stateForRoot() State {
	if os.Geteuid() == 0 {
		return Automatic
	}
	return Missing
}

func examineRoot() Prerequisite {
	f := Prerequisite{What: "root", State: OK, Detail: "the firewall of this machine keeps packets on it"}
	if os.Geteuid() != 0 {
		f.State, f.Detail = Warning, "not root: rules inside each node keep packets in instead, and images can be pulled but not built"
	}
	return f
}

// examineWeight cannot know which group the containers will be in: there may be none yet. But Docker with systemd puts
// them into system.slice, unless its configuration names another.
func examineWeight(ctx context.Context, eng *Engine) Prerequisite {
	f := Prerequisite{What: "CPU weight of all containers", State: OK, Detail: "raised while there is a cluster"}
	switch _, err := findCPUTree(cgroupMount); {
	case err != nil:
		f.State, f.Detail = Warning, err.Error()
	case os.Geteuid() != 0:
		f.State, f.Detail = Warning, "not root: it may stay as it is, so that other programs keep the nodes waiting for a processor"
	case eng != nil && eng.inSystemSlice(ctx, contentOf(dockerConfiguration)):
		f.State, f.Detail = Warning, "Docker puts its containers into system.slice, which also has the services of this host and is not raised: "+
			"other programs may keep the nodes waiting for a processor"
		f.Fix = `add "cgroup-parent": "docker.slice" to ` + dockerConfiguration + ", and run: " + asRoot("systemctl restart docker")
	}
	return f
}

// dockerConfiguration is the configuration of Docker's daemon, unless that was started with another.
const dockerConfiguration = "/etc/docker/daemon.json"

// inSystemSlice reports whether the engine is a Docker that puts containers into system.slice: with systemd it does,
// unless its configuration has another parent.
func (e *Engine) inSystemSlice(ctx context.Context, configuration string) bool {
	if e.Name != docker {
		return false
	}
	driver, err := e.Run(ctx, "info", "--format", "{{.CgroupDriver}}")
	if err != nil || driver != "systemd" {
		return false
	}
	var set struct {
		Parent string `json:"cgroup-parent"`
	}
	_ = json.Unmarshal([]byte(configuration), &set) // without a file, it has its defaults
	return set.Parent == "" || set.Parent == "system.slice"
}

func examineSize() Prerequisite {
	cores := runtime.NumCPU()
	f := Prerequisite{What: "cores and memory", State: OK, Detail: fmt.Sprintf("%d cores", cores)}
	memory := memoryOf(contentOf(meminfo), "MemTotal")
	if memory > 0 {
		f.Detail += fmt.Sprintf(", %.1f GiB of memory", float64(memory)/(1<<30))
	}
	if cores < coresNeeded || memory > 0 && memory < memoryNeeded {
		f.State = Warning
		f.Detail += fmt.Sprintf("; with fewer than %d cores or less than %d GiB, drills may end as Unknown", coresNeeded, memoryNeeded>>30)
	}
	return f
}

const meminfo = "/proc/meminfo"

// MemoryAvailable is how much memory programs of this machine can have without swapping, in bytes; 0 if that is not known.
func MemoryAvailable() uint64 { return memoryOf(contentOf(meminfo), "MemAvailable") }

// memoryOf reads one of the figures of /proc/meminfo, in bytes; 0 if it is not there.
func memoryOf(meminfo, figure string) uint64 {
	for line := range strings.Lines(meminfo) {
		var kib uint64
		if n, err := fmt.Sscanf(line, figure+": %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	return 0
}

// contentOf is the content of a file, empty if there is none: only Linux has these
// files.
func contentOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
