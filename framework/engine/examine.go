package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// State says how a machine stands with something that drills need.
type State string

// The states of a finding.
const (
	OK      State = "ok"
	Mended  State = "mended"  // is not there, and a run puts that right itself
	Warning State = "warning" // drills run, and something is lost
	Missing State = "missing" // no drill runs
)

// Finding is what an examination of the machine found of one thing.
type Finding struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Mend is the command that puts it right; empty where there is nothing to do
	// or no command does it.
	Mend string `json:"mend,omitempty"`
}

// What a machine must have. The six containers of a system were seen to take
// 3.7 GiB in all, and their images and volumes 7 GiB.
const (
	coresNeeded  = 2
	memoryNeeded = 6 << 30 // bytes
)

// Examine looks at what the engine and its host have for drills, and changes
// nothing but Podman's configuration in StateDir. The engine is nil where none
// answers.
func Examine(ctx context.Context) (*Engine, []Finding) {
	eng, engineFound := examineEngine(ctx)
	found := []Finding{examineSystem(), engineFound}
	if runtime.GOOS == "linux" {
		found = append(found, examineInotify(), examineModules(eng), examineRoot())
	}
	return eng, append(found, examineSize())
}

func examineSystem() Finding {
	f := Finding{What: "system", State: OK, Detail: runtime.GOOS + "/" + runtime.GOARCH}
	if runtime.GOOS != "linux" {
		f.State, f.Detail = Warning, f.Detail+": drills run in the engine's virtual machine, whose clock and load are not seen from here"
	}
	return f
}

func examineEngine(ctx context.Context) (*Engine, Finding) {
	f := Finding{What: "container engine", State: OK}
	eng, err := Detect(ctx, Options{})
	if err == nil {
		f.Detail = eng.Name
		return eng, f
	}
	f.State, f.Detail = Missing, err.Error()
	noEngine := errors.Is(err, errNoEngine)
	if debianLike(contentOf("/etc/os-release")) {
		f.Mend = installCommand(podmanPackages()...)
		switch {
		case os.Geteuid() != 0:
			f.Mend = "sudo " + f.Mend
		case noEngine:
			f.State = Mended
		}
	}
	return nil, f
}

func examineInotify() Finding {
	f := Finding{What: "inotify instances", State: OK}
	instances, err := readNumber(inotifyPath)
	if err != nil {
		f.State, f.Detail = Warning, err.Error()
		return f
	}
	f.Detail = fmt.Sprintf("%d, and %d are needed", instances, inotifyNeeded)
	if instances < inotifyNeeded {
		f.State, f.Mend = rootMends(), fmt.Sprintf("sudo sysctl -w fs.inotify.max_user_instances=%d", inotifyRaiseTo)
	}
	return f
}

func examineModules(eng *Engine) Finding {
	f := Finding{What: "folder " + modulesPath, State: OK, Detail: "kind mounts it into its nodes"}
	if (eng == nil || eng.Name == podman) && !exists(modulesPath) {
		f.State, f.Mend = rootMends(), "sudo mkdir "+modulesPath
	}
	return f
}

// rootMends is the state of what a run as root puts right.
func rootMends() State {
	if os.Geteuid() == 0 {
		return Mended
	}
	return Missing
}

func examineRoot() Finding {
	f := Finding{What: "root", State: OK, Detail: "packets are kept on this machine by its firewall"}
	if os.Geteuid() != 0 {
		f.State, f.Detail = Warning, "not root: packets are kept in by rules inside each node instead, and images can only be pulled"
	}
	return f
}

func examineSize() Finding {
	cores := runtime.NumCPU()
	f := Finding{What: "cores and memory", State: OK, Detail: fmt.Sprintf("%d cores", cores)}
	memory := memoryOf(contentOf("/proc/meminfo"))
	if memory > 0 {
		f.Detail += fmt.Sprintf(", %.1f GiB of memory", float64(memory)/(1<<30))
	}
	if cores < coresNeeded || memory > 0 && memory < memoryNeeded {
		f.State = Warning
		f.Detail += fmt.Sprintf("; with fewer than %d cores and %d GiB drills may stay Unknown", coresNeeded, memoryNeeded>>30)
	}
	return f
}

// memoryOf is the memory in bytes that the content of a /proc/meminfo tells; 0
// where it does not.
func memoryOf(meminfo string) uint64 {
	for line := range strings.Lines(meminfo) {
		var kib uint64
		if n, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	return 0
}

// contentOf is the content of a file, empty for one that is not there: other systems
// than Linux tell these things elsewhere.
func contentOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
