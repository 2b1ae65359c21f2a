package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// Cache is what spotdrill keeps on a machine besides a cluster, so that the next
// cluster takes only a minute to create.
type Cache struct {
	Images []string // that the engine holds, by their references
	Files  []string // files and folders of the state folder

	engine *engine.Engine
}

// FindCache lists what clean would remove.
func FindCache(ctx context.Context, opts Options) (Cache, error) {
	var c Cache
	var err error
	if c.engine, err = engine.Detect(ctx, engine.Options{Log: opts.Log}); err != nil {
		return c, err
	}
	if c.Images, err = c.engine.Images(ctx, kind.BuiltImages); err != nil {
		return c, err
	}
	c.Files, err = cachedFiles()
	return c, err
}

// cachedFiles are our files in the state folder, which SPOTDRILL_CACHE may place where
// other files are.
func cachedFiles() ([]string, error) {
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
func (c Cache) Remove(ctx context.Context) error {
	var errs []error
	for _, image := range c.Images {
		errs = append(errs, c.engine.RemoveImage(ctx, image))
	}
	for _, file := range c.Files {
		errs = append(errs, wrap.Errorf(os.RemoveAll(file), "clean"))
	}
	return errors.Join(errs...)
}

// String lists it, one line each.
func (c Cache) String() string {
	var b strings.Builder
	for _, image := range c.Images {
		fmt.Fprintln(&b, "image", image)
	}
	for _, file := range c.Files {
		fmt.Fprintln(&b, "files", file)
	}
	return b.String()
}
