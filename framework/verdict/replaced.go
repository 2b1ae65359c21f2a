package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Replaced has the parameters of checkReplaced.
type Replaced struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Validate checks the parameters.
func (c Replaced) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
}

// DecidedBy is how long it needs the recording.
func (c Replaced) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Deadlines[c.Notice])
}

var checkReplaced = check{
	Kind: Kind{
		ID: "replaced", Title: "pods of %s replaced",
		Requires: "As many new pods of every controller are Ready on other nodes at the deadline as it had evictable ones on the node when the notice was put.",
		Fix:      "begin to evict early enough for replacements to start, and leave their controllers' pods to the Eviction API",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: when did the first eviction begin, and which replacement was not Ready in time, or did not stay so?"},
	},
	judge: by(replaced),
}

func replaced(j judge, v Verdict, c Replaced) Verdict {
	v = v.requires(fmt.Sprintf("as many new pods Ready elsewhere at the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	missing := map[string]int{} // by controller
	for _, p := range j.ToLeave(node, put.At) {
		if owner := p.Controller(); owner != "" && !p.FinishedBy(*put.Until) {
			missing[owner]++
		}
	}
	if len(missing) == 0 {
		return v.unknown(fmt.Sprintf("no pod of a controller was on %s", node), put)
	}
	// A drill may end before the deadline, once all that it waits for is there.
	pods, last, seen := 0, put, min(*put.Until, j.Observed)
	for _, p := range j.Pods {
		owner := p.Controller()
		if p.Events[0].At < put.At || missing[owner] == 0 {
			continue
		}
		ready, ok := p.ReadyAt(seen)
		if !ok || ready.Node == node {
			continue
		}
		pods++
		missing[owner]--
		if ready.At > last.At {
			last = ready
		}
	}
	maps.DeleteFunc(missing, func(_ string, n int) bool { return n == 0 })
	v.Numbers = map[string]float64{"replaced": float64(pods)}
	switch {
	case len(missing) == 0:
		v.Numbers["replaced_seconds"] = (last.At - put.At).Seconds()
		return v.pass(fmt.Sprintf("%d pods Ready elsewhere after %s", pods, history.Seconds(last.At-put.At)), put, last)
	case j.Unseen(*put.Until) != "":
		return v.unknown(fmt.Sprintf("none Ready of %s: %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "), j.Unseen(*put.Until)), put)
	}
	return v.fail("none Ready in time of "+strings.Join(slices.Sorted(maps.Keys(missing)), ", "), put)
}
