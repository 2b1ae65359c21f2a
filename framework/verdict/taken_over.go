package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// TakenOver has the parameters of checkTakenOver.
type TakenOver struct {
	Node string `yaml:"node"`
	// Disturbance is a disturb step that removes the replica for good.
	Disturbance string `yaml:"disturbance"`
	// Within counts from the end of the replica.
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c TakenOver) Validate(in *scenarios.Scope) {
	in.Node(c.Node)
	in.OneOf("disturbance", c.Disturbance, in.Disturbances)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c TakenOver) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Caused+c.Within.D()).On(c.Node, t)
}

var checkTakenOver = by(Kind{
	ID: "takenOver", Title: "drain of %s taken over after %s",
	Requires: "After the replica of the handler that drained the node has ended for good, another one evicts the pods that are left, within a time.",
	Fix:      "record on the node that a drain is under way and who works on it, and let every replica look for drains that nobody works on, not only when it starts",
	Look:     Look{Lane: LanePods, Text: "the lanes Handler and Pods: which pods were left when the replica ended, and who evicted them? Then handler.log"},
}, takenOver)

func takenOver(j judge, v Verdict, c TakenOver) Verdict {
	v = v.requires(fmt.Sprintf("another replica evicting within %s of the end of the one that drained", c.Within.D()), c.Node, c.Disturbance)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	pods, why := story.Disturbed(j.Story, c.Disturbance)
	if why != "" {
		return v.unknown(why)
	}
	var names []string
	ended := history.Event{}
	for _, p := range pods {
		e, ok := p.Stopped()
		if !ok {
			return v.unknown(p.Name() + " has not ended")
		}
		if e.At > ended.At {
			ended = e
		}
		names = append(names, p.Name())
	}
	left := story.NotTerminating(j.Story, node, ended.At)
	until := min(ended.At+c.Within.D(), j.Gone(node))
	allLeave := !slices.ContainsFunc(left, func(p story.Pod) bool {
		_, ok := p.Terminating()
		return !ok
	})
	v.Numbers = map[string]float64{"left": float64(len(left))}
	switch {
	case len(left) == 0:
		return v.unknown("nothing was left on "+node+" to take over", ended)
	case !j.Audited():
		v.awaitsAudit = allLeave
		return v.unknown("the API server's audit log was not read, so who evicted is unknown", ended)
	}
	for _, e := range j.AllOf(history.HandlerTook) {
		taken := slices.ContainsFunc(left, func(p story.Pod) bool { return p.Name() == e.Pod })
		if !taken || e.Said == nil || *e.Said <= ended.At || *e.Said > until {
			continue
		}
		if e.HandlerPod() == "" {
			return v.unknown("the audit log does not show which replica evicted "+e.Pod, ended, e)
		}
		v.Numbers["taken_over_seconds"] = (*e.Said - ended.At).Seconds()
		return v.pass(fmt.Sprintf("%s evicted %s %s after %s had ended", e.HandlerPod(), e.Pod, history.Seconds(*e.Said-ended.At), names[0]), ended, e)
	}
	if why := j.Unseen(until); why != "" && !allLeave {
		return v.unknown("not taken over: "+why, ended)
	}
	return v.fail(fmt.Sprintf("nobody evicted the %s left within %s after %s had ended", history.Count(len(left), "pod"), history.Seconds(until-ended.At), names[0]), ended)
}
