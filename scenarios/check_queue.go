package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// Deleted requires that every message of a notice or message step is deleted from the
// queue in time after it was sent.
type Deleted struct {
	// Of is a notice or message step.
	Of string `yaml:"of"`
	// After is a fault. If it ends later than the message is sent, within counts from its
	// end.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within"`
}

func (c Deleted) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".of", c.Of, in.sent)
	in.after(where, c.After, p)
	p.positive(where+".within", c.Within)
}

func (c Deleted) observed(t Times) observation { return happens(t.sent(c.Of, c.After) + c.Within.D()) }

// QueueEmpty requires that no message is left in the queue at the end, neither visible
// nor in flight.
type QueueEmpty struct{}

func (QueueEmpty) validate(string, *scope, *problems) {}

func (QueueEmpty) observed(Times) observation { return atEnd() }
