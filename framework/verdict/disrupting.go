package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// configured returns the node behind a name, and the event because of which the handler has
// to remove it.
func (j judge) configured(name, of string) (node string, cause history.Event, why string) {
	if node, why = j.Node(name); why != "" {
		return "", cause, why
	}
	cause, ok := j.First(func(e history.Event) bool { return story.RemovedFor(e, of) && e.Node == node })
	if !ok {
		why = fmt.Sprintf("%q never called for the removal of %s (%s)", of, node, name)
	}
	return node, cause, why
}
