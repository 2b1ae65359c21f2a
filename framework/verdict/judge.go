package verdict

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// judge reads a drill's story and finds what each check requires.
type judge struct {
	*story.Story
	target   loss.Target
	measured *loss.Measurement // of the target
	// attribution is why its queries were lost; found once, when it is needed: it looks at every query.
	attribution func() *loss.Attribution
	// application judges what was measured of the workload's Service; nil if nothing was.
	application *judge
}

func newJudge(st *story.Story) judge {
	j := judgeOf(st, loss.DNS(st.Scenario))
	if p := st.Scenario.Probe; p != nil && p.Application != nil {
		application := judgeOf(st, loss.Application(st.Scenario))
		j.application = &application
	}
	return j
}

func judgeOf(st *story.Story, t loss.Target) judge {
	measured := loss.Measure(st, t)
	return judge{Story: st, target: t, measured: measured, attribution: sync.OnceValue(func() *loss.Attribution {
		return loss.Attribute(st, t, measured)
	})}
}

// longEnough makes a pass Unknown if the recording is too short for it: what must not
// happen could still have happened.
func (j judge) longEnough(c scenarios.Check, v Verdict) Verdict {
	if v.Outcome != Pass {
		return v
	}
	needs := c.DecidedBy(j.Scenario.Times(j.Events))
	if needs.Early || j.Observed >= needs.Until {
		return v
	}
	v.Outcome = Unknown
	v.Got += fmt.Sprintf(", but recorded up to +%s, and +%s is needed to show it", history.Seconds(j.Observed), history.Seconds(needs.Until))
	return v
}

// toLeave returns the pods of a group that must leave the node for a notice.
func (j judge) toLeave(node string, put history.Event, group string) []story.Pod {
	return slices.DeleteFunc(j.ToLeave(node, put.At), func(p story.Pod) bool { return !p.In(group) })
}

// describe names events for a verdict's Got: "node.cordoned, pod.evicted x 3".
func describe(events []history.Event) string {
	var kinds []string
	count := map[string]int{}
	for _, e := range events {
		count[string(e.Kind)]++
		if count[string(e.Kind)] == 1 {
			kinds = append(kinds, string(e.Kind))
		}
	}
	for i, k := range kinds {
		if count[k] > 1 {
			kinds[i] = fmt.Sprintf("%s x %d", k, count[k])
		}
	}
	return strings.Join(kinds, ", ")
}

// unclearWho reports that these events may be the handler's doing or not.
func unclearWho(events []history.Event) string {
	return describe(events) + "; the history does not show by whom"
}

// filter keeps the events that ok accepts.
func filter(events []history.Event, ok func(history.Event) bool) []history.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return !ok(e) })
}

// capped keeps evidence short enough to be read.
func capped[T any](events []T) []T {
	const most = 12
	return events[:min(len(events), most)]
}

// known leaves out the events that were not found.
func known(events ...history.Event) []history.Event {
	return slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == "" })
}

// andAfter is how a verdict's Want names the fault or disturbance whose end a countdown
// begins with.
func andAfter(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" and of the end of %q", name)
}
