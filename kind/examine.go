package kind

import (
	"context"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// Origin is where an image comes from when it is needed.
type Origin string

// The origins of an image.
const (
	Held    Origin = "held"    // the engine has it
	Pulled  Origin = "pulled"  // a registry has it
	Built   Origin = "built"   // it is built from the checkout
	Nowhere Origin = "nowhere" // no registry has it, and there is no checkout
)

// Source says of an image that drills need where it comes from, and why.
type Source struct {
	Name string // node or localstack
	Ref  string
	From Origin
	Why  string
}

// Examine finds out where the images that every drill needs come from, and
// neither pulls nor builds any.
func Examine(ctx context.Context, eng *engine.Engine, opts ImageOptions) []Source {
	var found []Source
	for _, img := range []image{nodeImage(), localStackImage()} {
		found = append(found, examine(ctx, eng, opts, img))
	}
	return found
}

// examine goes the way of ensure.
func examine(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image) Source {
	s := Source{Name: img.name, Ref: img.public, From: Held}
	if held, err := eng.HasImage(ctx, img.public); held && err == nil && !img.onlyBuilt {
		return s
	}
	built, sourceErr := builtReference(opts.Source, img)
	if held, err := eng.HasImage(ctx, built); sourceErr == nil && held && err == nil {
		s.Ref = built
		return s
	}
	s.Why = "the public one does not run on this host"
	if !img.onlyBuilt {
		unanswered := askRegistry(ctx, eng, img.public)
		if unanswered == nil {
			s.From = Pulled
			return s
		}
		s.Why = "no registry has it (" + unanswered.Error() + ")"
	}
	if sourceErr != nil {
		s.From, s.Why = Nowhere, s.Why+"; "+sourceErr.Error()
		return s
	}
	s.Ref, s.From = built, Built
	return s
}
