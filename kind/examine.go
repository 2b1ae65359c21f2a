package kind

import (
	"context"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// Origin is where a needed image comes from.
type Origin string

// The origins of an image.
const (
	Held    Origin = "held"    // the engine has it
	Pulled  Origin = "pulled"  // a registry has it
	Unasked Origin = "unasked" // a daemon pulls it, if it reaches a registry: only a pull shows that
	Built   Origin = "built"   // it is built here
	Nowhere Origin = "nowhere" // no registry has it, and it cannot be built
)

// Source shows where an image comes from, and why.
type Source struct {
	Name string // such as localstack, node-v1.37.2 or coredns-v1.15.0
	Ref  string
	From Origin
	// Root is set if building it needs root.
	Root bool
	Why  string
	// Otherwise is where one that is Unasked comes from if the pull fails: Built or Nowhere.
	Otherwise Origin
	// Note is what a reader should know about the version, or "".
	Note string
}

// Examine finds out where the images that every drill needs come from, and those of the handlers whose versions are
// chosen. It neither pulls nor builds any.
func Examine(ctx context.Context, eng *engine.Engine, opts ImageOptions, versions Versions) ([]Source, error) {
	nodes, _, _, err := opts.nodeImage(versions.Kubernetes)
	if err != nil {
		return nil, err
	}
	dns, err := opts.CoreDNSRelease(versions.CoreDNS)
	if err != nil {
		return nil, err
	}
	images := []image{nodes, dns.image(), localStackImage()}
	for _, p := range []Program{Karpenter, NTH} {
		if version := versions.Of(p); version != "" {
			images = append(images, Release{Program: p, Version: version}.image())
		}
	}
	var found []Source
	for _, img := range images {
		source, err := examine(ctx, eng, opts, img)
		if err != nil {
			return found, fmt.Errorf("look for the %s image: %w", img.name, err)
		}
		source.Note, source.Root = img.note, img.needsRoot()
		found = append(found, source)
	}
	return found, nil
}

// examine is locate, and asks the registry for what is to be pulled.
func examine(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image) (Source, error) {
	found, err := locate(ctx, eng, opts, img)
	if err != nil || found.From != Pulled {
		return found, err
	}
	unanswered := askRegistry(ctx, eng, img.public)
	if unanswered == nil || ctx.Err() != nil {
		return found, ctx.Err()
	}
	img.notPublic = ungiven(img, unanswered)
	otherwise, err := locate(ctx, eng, opts, img)
	if err != nil || eng.Daemonless() {
		return otherwise, err
	}
	return Source{Name: img.name, Ref: img.public, From: Unasked, Why: otherwise.Why, Otherwise: otherwise.From}, nil
}

// locate finds out where an image comes from. One that is Pulled was not looked for in a registry.
func locate(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image) (Source, error) {
	if img.notPublic == "" {
		if held, err := eng.HasImage(ctx, img.public); held || err != nil {
			return Source{Name: img.name, Ref: img.public, From: Held}, err
		}
	}
	built, unbuildable := opts.reference(img)
	if unbuildable == nil {
		if held, err := eng.HasImage(ctx, built); held || err != nil {
			return Source{Name: img.name, Ref: built, From: Held}, err
		}
	}
	switch {
	case img.notPublic == "":
		return Source{Name: img.name, Ref: img.public, From: Pulled}, nil
	case unbuildable != nil:
		return Source{Name: img.name, From: Nowhere, Why: img.notPublic + "; " + unbuildable.Error()}, nil //nolint:nilerr // Why reports it
	}
	return Source{Name: img.name, Ref: built, From: Built, Why: img.notPublic}, nil
}

func ungiven(img image, err error) string {
	return fmt.Sprintf("no registry gives the %s image (%v)", img.name, err)
}
