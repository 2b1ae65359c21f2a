package run

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/kind"
)

// diskNeeded is what the images, the volumes of the nodes and, where images are
// built, what they are built from were seen to take, in bytes.
const diskNeeded = 15 << 30

// Examine says what this machine has and lacks for the system that the options
// ask for. It changes nothing in it.
func Examine(ctx context.Context, opts Options) []engine.Prerequisite {
	eng, found := engine.Examine(ctx)
	found = append(found, examineDisk(), examineBinary(opts.Binary))
	if eng == nil {
		return found
	}
	found = append(found, examineImages(ctx, eng, opts)...)
	return append(found, examineCluster(ctx, eng, opts))
}

func examineDisk() engine.Prerequisite {
	f := engine.Prerequisite{What: "disk", State: engine.OK}
	dir, err := engine.StateDir()
	if err != nil {
		f.State, f.Detail, f.Fix = engine.Missing, err.Error(), "export SPOTDRILL_CACHE=/path/to/a/folder"
		return f
	}
	f.Detail = dir
	for !exists(dir) && dir != filepath.Dir(dir) { // is made by the first run
		dir = filepath.Dir(dir)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		f.State, f.Detail = engine.Warning, fmt.Sprintf("%s: %v", f.Detail, err)
		return f
	}
	free := fs.Bavail * uint64(fs.Bsize)
	f.Detail += fmt.Sprintf(": %.0f GiB free", float64(free)/(1<<30))
	if free < diskNeeded {
		f.State, f.Detail, f.Fix = engine.Warning, f.Detail+fmt.Sprintf(", and a first run takes up to %d", diskNeeded>>30), "spotdrill clean --dry-run"
	}
	return f
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// examineBinary looks whether the nodes can run the binary: they have nothing but
// their kernel to give it.
func examineBinary(binary string) engine.Prerequisite {
	f := engine.Prerequisite{What: "binary for the nodes", State: engine.OK, Detail: binary}
	file, err := elf.Open(binary)
	if err != nil {
		f.State, f.Detail, f.Fix = engine.Missing, fmt.Sprintf("%s is no Linux binary: %v", binary, err), "make build"
		return f
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err == nil && len(libraries) > 0 {
		f.State, f.Detail, f.Fix = engine.Missing, fmt.Sprintf("%s is not static: it wants %s", binary, strings.Join(libraries, ", ")), "make build"
	}
	return f
}

// examineImages looks where the images of the nodes and of LocalStack come from.
func examineImages(ctx context.Context, eng *engine.Engine, opts Options) []engine.Prerequisite {
	images, err := kind.Examine(ctx, eng, kind.ImageOptions{Source: opts.Source})
	if err != nil {
		return []engine.Prerequisite{{What: "images", State: engine.Missing, Detail: err.Error()}}
	}
	var found []engine.Prerequisite
	for _, image := range images {
		f := engine.Prerequisite{What: "image " + image.Name, State: engine.OK, Detail: image.Ref}
		switch image.From {
		case kind.Held:
			f.Detail += ", which the engine holds"
		case kind.Pulled:
			f.State, f.Detail = engine.Automatic, f.Detail+" is pulled by the first run"
		case kind.Built:
			f.State, f.Detail = engine.Automatic, f.Detail+" is built by the first run: "+image.Why
			if why, fix := cannotBuild(); why != "" {
				f.State, f.Detail, f.Fix = engine.Missing, f.Detail+"; "+why, fix
			}
		default:
			f.State, f.Detail, f.Fix = engine.Missing, image.Why, "spotdrill doctor --source /path/to/a/checkout"
		}
		found = append(found, f)
	}
	return found
}

// cannotBuild says why images cannot be built here, and how to fix it.
func cannotBuild() (why, fix string) {
	if os.Geteuid() != 0 {
		return "building needs root", "sudo -E spotdrill up"
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "building needs Debian or Ubuntu: no registry is reached, and apt-get is not here", ""
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "building needs Go", "see https://go.dev/doc/install"
	}
	return "", ""
}

// kindLabel is what kind puts on its nodes.
const kindLabel = "io.x-k8s.kind.cluster"

func examineCluster(ctx context.Context, eng *engine.Engine, opts Options) engine.Prerequisite {
	f := engine.Prerequisite{What: "cluster " + opts.Cluster, State: engine.Automatic, Detail: "there is none; a run makes it"}
	var containers []engine.Container
	for _, label := range []string{cluster.Label, kindLabel + "=" + opts.Cluster} {
		with, err := eng.Containers(ctx, label)
		if err != nil {
			f.State, f.Detail = engine.Warning, err.Error()
			return f
		}
		containers = append(containers, with...)
	}
	containers = slices.DeleteFunc(containers, func(c engine.Container) bool { return !strings.HasPrefix(c.Name, opts.Cluster+"-") })
	stopped := slices.DeleteFunc(slices.Clone(containers), func(c engine.Container) bool { return c.State == "running" })
	switch {
	case len(containers) == 0:
	case len(stopped) > 0:
		f.Detail = fmt.Sprintf("%d of its %d containers do not run; the next run repairs it or makes it again", len(stopped), len(containers))
	default:
		f.State, f.Detail = engine.OK, fmt.Sprintf("its %d containers run", len(containers))
	}
	return f
}
