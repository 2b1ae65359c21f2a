package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// Deleted requires that every message of a notice or message step is deleted from the
// queue in time after it was sent.
type Deleted struct {
	// Of is a notice or message step.
	Of string `yaml:"of"`
	// After is a fault or a disturbance. If it ends later than the message is sent, within
	// counts from its end.
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

// Calls requires that the handler does not call SQS too often: in any period of the length
// over, at most perSecond calls for each second of it.
type Calls struct {
	// PerSecond is the highest rate of calls, at least 1.
	PerSecond int `yaml:"perSecond"`
	// Over is the length of the period.
	Over strict.Duration `yaml:"over"`
	// During is a fault: only the calls while it lasts count. Left out, those of the whole
	// drill count.
	During string `yaml:"during,omitempty"`
}

func (c Calls) validate(where string, in *scope, p *problems) {
	if c.PerSecond < 1 {
		p.add(where+".perSecond", "%d is less than 1", c.PerSecond)
	}
	p.positive(where+".over", c.Over)
	if c.During != "" {
		oneOf(p, where+".during", c.During, in.faults)
	}
}

func (c Calls) observed(t Times) observation {
	if c.During != "" {
		return atEnd()
	}
	return absent(t.Stepped + c.Over.D())
}
