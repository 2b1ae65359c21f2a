package system

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// ErrNoImage is why a handler cannot be drilled on this machine: no registry gives
// its image, and it cannot be built here.
var ErrNoImage = kind.ErrNotAvailable

// build identifies the image of a handler: its description, and the binary that
// replaces the product's own, or the release that replaces its version, if any.
type build struct{ file, binary, version string }

func buildOf(d handler.Description) build { return build{d.File, d.Binary, d.Version} }

// Provide loads the image of an installation's handler into the nodes: that of its Binary; the
// one that override names, which the engine must hold; or that of its Release or its
// description, which is pulled or built. Without any of them it is the product's own, which the
// nodes have. ErrNoImage if no registry gives it.
func (s *System) Provide(ctx context.Context, i Installation, override string) error {
	if i.Handler.Binary != "" {
		ref, err := s.loadBinary(ctx, i.Handler.Binary)
		if err != nil {
			return err
		}
		s.Handlers.images[buildOf(i.Handler)] = ref
		return nil
	}
	held, err := s.hold(ctx, i.Handler, override)
	if err != nil || held == "" {
		return err
	}
	return s.timed("handler's image in the nodes", func() error {
		ref, err := nodeimages.Load(ctx, s.engine, held, "handler", cluster.WorkerNames(s.opts.Cluster))
		if err != nil {
			return err
		}
		s.Handlers.images[buildOf(i.Handler)] = ref
		s.Environment[i.FilePrefix()+"-image"] = held + " as " + ref
		return nil
	})
}

func (s *System) imageOptions() kind.ImageOptions {
	return kind.ImageOptions{Source: s.opts.Source, Log: s.opts.Log}
}

// hold makes the container engine hold the image of a handler and returns its
// reference; "" for the product's own.
func (s *System) hold(ctx context.Context, d handler.Description, override string) (string, error) {
	switch {
	case override != "":
		ok, err := s.engine.HasImage(ctx, override)
		if err == nil && !ok {
			err = fmt.Errorf("--handler-image=%s: %s does not hold this image", override, s.engine.Name)
		}
		return override, err
	case d.Release != nil:
		return kind.ReleaseImage(ctx, s.engine, s.imageOptions(), *d.Release)
	case d.Image.Ref == "":
		return "", nil
	case len(d.Image.Build) > 0:
		err := kind.BuildImage(ctx, s.engine, s.imageOptions(), filepath.Dir(d.File), d.Image.Build, d.Image.Ref)
		return d.Image.Ref, wrap.Errorf(err, "%s", d.At("image.build"))
	}
	held, err := kind.HandlerImage(ctx, s.engine, s.imageOptions(), d.Image.Ref, d.Image.Recipe)
	return held, wrap.Errorf(err, "%s", d.At("image.ref"))
}

// RemoveImage removes the image that Provide loaded from the Binary of an installation's handler,
// which must be uninstalled.
func (s *System) RemoveImage(ctx context.Context, i Installation) error {
	ref, ok := s.Handlers.images[buildOf(i.Handler)]
	if !ok || i.Handler.Binary == "" || ref == s.Image {
		return nil
	}
	delete(s.Handlers.images, buildOf(i.Handler))
	workers, err := s.Cluster.Workers()
	if err != nil {
		return err
	}
	return nodeimages.Remove(ctx, s.engine, ref, workers)
}
