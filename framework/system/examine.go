package system

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/kind"
)

// diskNeeded is how many bytes the images, the nodes' volumes and the sources of
// images that are built here were seen to take.
const diskNeeded = 15 << 30

// Examine reports what this machine has and lacks for a system with these options.
// It changes nothing.
func Examine(ctx context.Context, opts Options) []engine.Prerequisite {
	eng, found := engine.Examine(ctx)
	found = append(found, examineDisk(), examineCache(os.Geteuid()), examineBinary(opts.Binary))
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
	var fs unix.Statfs_t
	if err := unix.Statfs(nearest(dir), &fs); err != nil {
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

// examineCache checks that the files that a run writes belong to this user: after a run with sudo -E, they are root's.
func examineCache(uid int) engine.Prerequisite {
	f := engine.Prerequisite{What: "cache", State: engine.OK, Detail: "its files belong to this user"}
	dir, err := engine.StateDir()
	if err != nil {
		return engine.Prerequisite{What: "cache", State: engine.Missing, Detail: err.Error(), Fix: "export SPOTDRILL_CACHE=/path/to/a/folder"}
	}
	if why, fix := closed(dir, uid); why != "" {
		f.State, f.Detail, f.Fix = engine.Missing, why, fix
	}
	return f
}

// nearest is a folder, or what there is of its path: the first run creates the rest.
func nearest(dir string) string {
	for !exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// closed returns why a user cannot write to the cache, and what to do; "" if that is possible.
func closed(dir string, uid int) (why, fix string) {
	if foreign := notOurs(dir, uid); foreign != "" {
		return foreign + " belongs to another user, as after sudo -E", giveBack(dir)
	}
	there := nearest(dir)
	err := unix.Access(there, unix.W_OK|unix.X_OK)
	if info, unknown := os.Stat(there); unknown == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		return fmt.Sprintf("this user cannot write to %s: %v", there, err), "export SPOTDRILL_CACHE=/path/to/a/folder"
	}
	return "", ""
}

// notOurs returns a file or folder of the cache that another user than uid owns, or "": only root can write to those of others.
func notOurs(dir string, uid int) string {
	if uid == 0 {
		return ""
	}
	for _, pattern := range []string{"", "*", claims + "/*", "kubeconfig/*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well-formed
		for _, file := range files {
			var stat unix.Stat_t
			if unix.Lstat(file, &stat) == nil && int(stat.Uid) != uid {
				return file
			}
		}
	}
	return ""
}

// giveBack is the command that makes the cache this user's again.
func giveBack(dir string) string { return `sudo chown -R "$(id -u):$(id -g)" ` + dir }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// examineBinary checks that the nodes can run the binary: it must be static, as it
// gets nothing but their kernel.
func examineBinary(binary string) engine.Prerequisite {
	f := engine.Prerequisite{What: "binary for the nodes", State: engine.OK, Detail: binary}
	if err := nodeimages.Static(binary); err != nil {
		f.State, f.Detail, f.Fix = engine.Missing, err.Error(), "make build"
	}
	return f
}

// examineImages reports where the images of the nodes and of LocalStack come from.
func examineImages(ctx context.Context, eng *engine.Engine, opts Options) []engine.Prerequisite {
	images, err := kind.Examine(ctx, eng, kind.ImageOptions{Source: opts.Source}, opts.Versions)
	if err != nil {
		return []engine.Prerequisite{{What: "images", State: engine.Missing, Detail: err.Error()}}
	}
	var found []engine.Prerequisite
	for _, image := range images {
		found = append(found, examineImage(image))
	}
	return found
}

func examineImage(image kind.Source) engine.Prerequisite {
	f := engine.Prerequisite{What: "image " + image.Name, State: engine.OK, Detail: image.Ref}
	switch image.From {
	case kind.Held:
		f.Detail += ", which the engine has"
	case kind.Pulled:
		f.State, f.Detail = engine.Automatic, f.Detail+" will be pulled by the first run"
	case kind.Unasked:
		f.State, f.Fix = engine.Warning, "docker pull "+image.Ref
		f.Detail += " will be pulled by the first run, if Docker's daemon reaches a registry, by a mirror or a proxy of its own: this client does not. Otherwise "
		if image.Otherwise == kind.Built {
			f.Detail += "it will be built: "
			if why, _ := cannotBuild(image.Root); why != "" {
				f.Detail += why + ": "
			}
		}
		f.Detail += image.Why
	case kind.Built:
		f.State, f.Detail = engine.Automatic, f.Detail+" will be built by the first run: "+image.Why
		if why, fix := cannotBuild(image.Root); why != "" {
			f.State, f.Detail, f.Fix = engine.Missing, f.Detail+"; "+why, fix
		}
	default:
		f.State, f.Detail, f.Fix = engine.Missing, image.Why, "spotdrill doctor --source /path/to/a/checkout"
	}
	if image.Note != "" {
		f.Detail += "; " + image.Note
	}
	return f
}

// buildAsRoot builds the images, which Docker then has for every user. Root needs Go in its PATH, and a cache of its own:
// with sudo -E, this user's would be root's afterwards.
const buildAsRoot = `sudo -H env "PATH=$PATH" sh -c 'spotdrill up >/dev/null && spotdrill down'`

// cannotBuild returns why an image cannot be built here, and what fixes it.
func cannotBuild(root bool) (why, fix string) {
	if root && os.Geteuid() != 0 {
		return "building needs root", buildAsRoot
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "building needs Debian or Ubuntu: no registry can be reached, and there is no apt-get", ""
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "building needs Go", "see https://go.dev/doc/install"
	}
	return "", ""
}

// kindLabel is the label that kind puts on its nodes.
const kindLabel = "io.x-k8s.kind.cluster"

func examineCluster(ctx context.Context, eng *engine.Engine, opts Options) engine.Prerequisite {
	f := engine.Prerequisite{What: "cluster " + opts.Cluster, State: engine.Automatic, Detail: "there is none; a run creates it"}
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
		f.Detail = fmt.Sprintf("%d of its %s do not run; the next run restores or recreates it", len(stopped), history.Count(len(containers), "container"))
	default:
		f.State, f.Detail = engine.OK, fmt.Sprintf("its %s run", history.Count(len(containers), "container"))
	}
	return f
}
