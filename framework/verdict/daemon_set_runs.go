package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// DaemonSetRuns has the parameters of checkDaemonSetRuns.
type DaemonSetRuns struct {
	// Name is a DaemonSet that a step creates.
	Name string `yaml:"name"`
	// Of is the step that configures the handler, because of which the nodes are replaced.
	Of string `yaml:"of"`
	// Within is the time from that step.
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c DaemonSetRuns) Validate(in *scenarios.Scope) {
	in.OneOf("name", c.Name, in.DaemonSets)
	in.OneOf("of", c.Of, in.Reconfigured)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c DaemonSetRuns) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Sent[c.Of] + c.Within.D())
}

var checkDaemonSetRuns = by(Kind{
	ID: "daemonSetRuns", Title: "DaemonSet %s runs",
	Requires: "A DaemonSet whose pods did not fit on the nodes runs on every launched node when these have been replaced, within a time of the configuration that calls for it.",
	Fix:      "count the DaemonSets of the cluster, as they are now, in the size of every node that is launched",
	Look:     Look{Lane: LanePods, Text: "the lanes Handler and Pods: what the scheduler reported of the pending pods, and which node has none that is Ready"},
}, daemonSetRuns)

func daemonSetRuns(j judge, v Verdict, c DaemonSetRuns) Verdict {
	v = v.requires(fmt.Sprintf("a Ready pod on every launched node within %s of %q", c.Within.D(), c.Of), c.Name)
	cause, ok := j.First(func(e history.Event) bool { return story.RemovedFor(e, c.Of) })
	if !ok {
		return v.unknown(fmt.Sprintf("%q never called for a removal", c.Of))
	}
	pods := slices.DeleteFunc(slices.Clone(j.Pods), func(p story.Pod) bool { return p.Controller() != "DaemonSet/"+c.Name })
	pending, said := story.PendingPods(j.Story, pods, cause.At)
	if len(pending) == 0 {
		return v.unknown("none of its pods was pending when the nodes were to be replaced, so that they run later proves nothing", cause)
	}
	limit := cause.At + c.Within.D()
	missing, done := story.NodesWithout(j.Story, pods, cause, min(limit, j.Observed))
	if len(missing) == 0 {
		v.Numbers = map[string]float64{"pending": float64(len(pending)), "runs_seconds": (done.At - cause.At).Seconds()}
		return v.pass(fmt.Sprintf("%d were pending (%s), and all ran after %s", len(pending), said.Note, history.Seconds(done.At-cause.At)), known(said, cause, done)...)
	}
	if why := j.Unseen(limit); why != "" {
		return v.unknown("does not run everywhere: "+why, cause)
	}
	return v.fail("no Ready pod on "+strings.Join(missing, ", "), known(said, cause)...)
}
