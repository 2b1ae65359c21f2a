package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Replaced has the parameters of checkReplaced.
type Replaced struct {
	NodeNotice `yaml:",inline"`
}

// DecidedBy is how long it needs the recording.
func (c Replaced) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Deadlines[c.Notice])
}

var checkReplaced = by(Kind{
	ID: "replaced", Title: "pods of %s replaced",
	Requires: "As many new pods of every controller are Ready on other nodes at the deadline as it had evictable ones on the node when the notice was put.",
	Fix:      "begin to evict early enough for replacements to start, and leave their controllers' pods to the Eviction API",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: when did the first eviction begin, and which replacement was not Ready in time, or did not stay so?"},
}, replaced)

func replaced(j judge, v Verdict, c Replaced) Verdict {
	v = v.requires(fmt.Sprintf("as many new pods Ready elsewhere at the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	missing := story.Controlled(j.Story, node, put)
	if len(missing) == 0 {
		return v.unknown(fmt.Sprintf("no pod of a controller was on %s", node), put)
	}
	// A drill may end before the deadline, once all that it waits for is there.
	pods, last := story.Replacements(j.Story, node, put, min(*put.Until, j.Observed), missing)
	v.Numbers = map[string]float64{"replaced": float64(pods)}
	switch {
	case len(missing) == 0:
		v.Numbers["replaced_seconds"] = (last.At - put.At).Seconds()
		return v.pass(fmt.Sprintf("%s Ready elsewhere after %s", history.Count(pods, "pod"), history.Seconds(last.At-put.At)), put, last)
	case j.Unseen(*put.Until) != "":
		return v.unknown(fmt.Sprintf("none Ready of %s: %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "), j.Unseen(*put.Until)), put)
	}
	return v.fail("none Ready in time of "+strings.Join(slices.Sorted(maps.Keys(missing)), ", "), put)
}
