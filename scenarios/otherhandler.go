package scenarios

import (
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// OtherHandler is another handler that runs in the drill next to the one under test.
type OtherHandler struct {
	// Name is a handler that comes with spotdrill. A run with two handlers uses its second one
	// instead.
	Name string `yaml:"name"`
	// Queue is which queue it reads: shared, or own, with rules of its own. It does not
	// matter to a handler that reads the metadata of its instance.
	Queue Queue `yaml:"queue"`
	// Feature is the feature whose settings it gets.
	Feature string `yaml:"feature,omitempty"`
}

// Queue is which queue a second handler reads.
type Queue string

// The queues: that of the handler under test, or another one.
const (
	SharedQueue Queue = "shared"
	OwnQueue    Queue = "own"
)

func (s Scenario) validateOther(p *problems) {
	second := s.OtherHandler
	if second == nil {
		return
	}
	if second.Name == "" {
		p.add("secondHandler.name", "must not be empty")
	}
	oneOf(p, "secondHandler.queue", second.Queue, []Queue{SharedQueue, OwnQueue})
	if second.Feature != "" {
		oneOf(p, "secondHandler.feature", second.Feature, feature.Names())
	}
	if s.Handler == HandlerNone {
		p.add("secondHandler", "requires a handler under test")
	}
}

// HandlersAgree requires that one of two handlers drains the node of a notice and that the other
// leaves it alone, that neither deletes a message for which nobody acts, and that no mark is taken
// off the node while its instance is there.
type HandlersAgree struct {
	Node string `yaml:"node"`
	// Notice is the step that calls for the drain.
	Notice string `yaml:"notice"`
}

func (c HandlersAgree) validate(where string, in *scope, p *problems) {
	in.noticeForTwo(where, c.Node, c.Notice, p)
}

func (c HandlersAgree) observed(t Times) observation {
	return absent(t.Stepped+RepeatTime).on(c.Node, t)
}

// LeadGained requires that the second handler acts on the node before the handler under test
// could: that long before the notice that this one drains for.
type LeadGained struct {
	Node string `yaml:"node"`
	// Notice is the step that the handler under test drains for.
	Notice string `yaml:"notice"`
	// AtLeast is the time from the second handler's first act to that step.
	AtLeast strict.Duration `yaml:"atLeast"`
}

func (c LeadGained) validate(where string, in *scope, p *problems) {
	in.noticeForTwo(where, c.Node, c.Notice, p)
	p.positive(where+".atLeast", c.AtLeast)
}

func (LeadGained) observed(Times) observation { return atEnd() }

// noticeForTwo checks a check of two handlers, of a node and a notice that names it.
func (in *scope) noticeForTwo(where, node, notice string, p *problems) {
	in.noticeFor(where, node, notice, p)
	if !in.hasOther {
		p.add(where, "requires a secondHandler")
	}
}
