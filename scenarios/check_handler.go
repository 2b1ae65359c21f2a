package scenarios

import (
	"slices"
	"time"
)

// NotRestarted requires that the handler's pods exist from the first step to the end of
// the drill, and that none of their containers exits or restarts.
type NotRestarted struct{}

func (NotRestarted) validate(string, *scope, *problems) {}

func (NotRestarted) observed(t Times) observation { return absent(t.reaction()) }

// MidDrain requires that the handler was disturbed in the middle of a drain: the node's
// drain had begun and pods were still on the node. Otherwise surviving the disturbance
// proves nothing.
type MidDrain struct {
	// Disturbance is a disturb step.
	Disturbance string `yaml:"disturbance"`
	Node        string `yaml:"node"`
}

func (c MidDrain) validate(where string, in *scope, p *problems) {
	in.node(where, c.Node, p)
	oneOf(p, where+".disturbance", c.Disturbance, in.disturbances)
}

func (MidDrain) observed(Times) observation { return atEnd() }

// HandlerMemory requires that the handler's memory does not grow with the messages of a
// flood: from its second and third tenths to its last two, median to median. The first
// tenth is for caches that fill and stay.
type HandlerMemory struct {
	// During is a message step with every and for, of at least ShortestSoak.
	During string `yaml:"during"`
	// GrowthMiB is the most by which a pod of the handler may grow.
	GrowthMiB int `yaml:"growthMiB"`
}

// ShortestSoak is the shortest flood in which growth can be distinguished from the noise of a
// garbage collector: its fifth has six readings of the memory.
const ShortestSoak = 5 * time.Minute

func (c HandlerMemory) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".during", c.During, in.sent)
	if lasts, flood := in.floods[c.During]; slices.Contains(in.sent, c.During) && (!flood || lasts < ShortestSoak) {
		p.add(where+".during", "%q is not a message step with every, and with for of at least %s", c.During, ShortestSoak)
	}
	if c.GrowthMiB <= 0 {
		p.add(where+".growthMiB", "must be more than 0")
	}
}

func (HandlerMemory) observed(Times) observation { return atEnd() }
