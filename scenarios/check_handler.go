package scenarios

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
