package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// ApplicationLost requires that at most Max requests to the workload's Service are lost: they
// were refused, not answered in time, or not answered with an HTTP status below 400.
type ApplicationLost struct {
	// Mode selects the requests that count: over fresh connections, over kept ones (fixed), or
	// all.
	Mode string `yaml:"mode"`
	// Max is how many requests may be lost.
	Max int `yaml:"max"`
}

func (c ApplicationLost) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".mode", c.Mode, ProbeModes())
	in.needsApplication(where, c.Mode, p)
	p.atLeast0(where+".max", c.Max)
}

func (ApplicationLost) observed(Times) observation { return atEnd() }

// ApplicationWindow requires bounds on the longest window in which requests to the workload's
// Service were lost. At least one of min and max is set.
type ApplicationWindow struct {
	// Mode selects the requests that count: over fresh connections, over kept ones (fixed), or
	// all.
	Mode string `yaml:"mode"`
	// Min is the shortest that the window may be.
	Min strict.Duration `yaml:"min,omitempty"`
	// Max is the longest that the window may be.
	Max strict.Duration `yaml:"max,omitempty"`
}

func (c ApplicationWindow) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".mode", c.Mode, ProbeModes())
	in.needsApplication(where, c.Mode, p)
	validateBounds(where, c.Min, c.Max, p)
}

func (ApplicationWindow) observed(Times) observation { return atEnd() }
