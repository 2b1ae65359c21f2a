package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/kind"
)

// Kept is what spotdrill keeps on a machine besides a cluster, so that the next
// cluster takes only a minute to create.
type Kept struct {
	Images []string // that the engine holds, by their references
	Files  []string // files and folders of the state folder

	engine *engine.Engine
}

// Keeps lists what clean would remove.
func Keeps(ctx context.Context, opts Options) (Kept, error) {
	var k Kept
	var err error
	if k.engine, err = engine.Detect(ctx, engine.Options{Log: opts.Log}); err != nil {
		return k, err
	}
	if k.Images, err = k.engine.Images(ctx, kind.BuiltImages); err != nil {
		return k, err
	}
	k.Files, err = keptFiles()
	return k, err
}

// keptFiles are our files in the state folder, which SPOTDRILL_CACHE may place where
// other files are.
func keptFiles() ([]string, error) {
	dir, err := engine.StateDir()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range []string{"images", "kubeconfig", "report-test", "demo", "containers.conf", claims} {
		if file := filepath.Join(dir, name); exists(file) {
			files = append(files, file)
		}
	}
	return files, nil
}

// Remove deletes all of it. An image that a container uses is an error: call Down
// first.
func (k Kept) Remove(ctx context.Context) error {
	var errs []error
	for _, image := range k.Images {
		errs = append(errs, k.engine.RemoveImage(ctx, image))
	}
	for _, file := range k.Files {
		if err := os.RemoveAll(file); err != nil {
			errs = append(errs, fmt.Errorf("clean: %w", err))
		}
	}
	return errors.Join(errs...)
}

// String lists it, one line each.
func (k Kept) String() string {
	var b strings.Builder
	for _, image := range k.Images {
		fmt.Fprintln(&b, "image", image)
	}
	for _, file := range k.Files {
		fmt.Fprintln(&b, "files", file)
	}
	return b.String()
}
