package scenarios

import (
	"github.com/spotdrill/spotdrill/framework/feature"
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

// noticeForTwo checks a check of two handlers, of a node and a notice that names it.
func (in *scope) noticeForTwo(where, node, notice string, p *problems) {
	in.noticeFor(where, node, notice, p)
	if !in.hasOther {
		p.add(where, "requires a secondHandler")
	}
}
