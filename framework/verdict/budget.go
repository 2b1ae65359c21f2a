package verdict

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkBudgetKept = check{
	Kind: Kind{
		ID: "budgetKept", Title: "budget of %s kept",
		Requires: "The drain never leaves fewer of the pods Ready than their PodDisruptionBudget requires, from the notice until the instance goes.",
		Fix:      "evict by the Eviction API, which respects budgets, and never by deleting pods",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: how many were terminating at the same time, and were they evicted or deleted?"},
	},
	judge: by(budgetKept),
}

func budgetKept(j judge, v Verdict, c scenarios.BudgetKept) Verdict {
	v = v.wants("the drain never leaves fewer pods Ready than their PodDisruptionBudget requires", c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := j.Gone(node)
	n := j.BudgetOf(node, c.Pods)
	lowest, below := -1, false
	var before, unclear history.Event
	missing := 0
	for _, e := range j.Events {
		if e.At >= until {
			break
		}
		if e.At >= put.At && lowest < 0 {
			here := 0
			for _, p := range j.ToLeave(node, put.At) {
				if p.In(c.Pods) {
					here++
				}
			}
			switch room := n.Ready() - n.Required; {
			case !n.Seen:
				return v.unknown("the history shows no budget")
			case room < 0:
				return v.unknown(fmt.Sprintf("%d were Ready before the notice, and the budget requires %d", n.Ready(), n.Required), put)
			case here <= room:
				return v.unknown(fmt.Sprintf("the budget had room for all %d pods on %s, so that it was kept proves nothing", here, node), put)
			}
			lowest = n.Ready()
		}
		n.Follow(e)
		if lowest < 0 {
			continue
		}
		lowest = min(lowest, n.Ready())
		below = below || n.Ready() < n.Required
		switch n.Exceeds(e) {
		case story.Unclear:
			if unclear.Kind == "" {
				unclear, missing = e, n.Others()
			}
		case story.Blamed:
			v.Numbers = map[string]float64{"lowest": float64(lowest), "min_available": float64(n.Required)}
			return v.fail(fmt.Sprintf("%d Ready of %d required, %s after the notice: %s %s", n.Ready(), n.Required,
				history.Seconds(e.At-put.At), e.Pod, e.Kind), append([]history.Event{put}, known(before, e)...)...)
		}
		if n.Has(e) {
			before = e
		}
	}
	v.Numbers = map[string]float64{"lowest": float64(lowest), "min_available": float64(n.Required)}
	switch {
	case lowest < 0:
		return v.unknown("the node was gone when the notice was put", put)
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), put)
	case unclear.Kind != "":
		return v.unknown(fmt.Sprintf("%s was evicted when %d others were not Ready for another reason, so whether the budget had room for it is not known", unclear.Pod, missing), put, unclear)
	case below:
		return v.pass(fmt.Sprintf("never fewer than %d Ready; fewer than required only by pods that the drain did not take", lowest), put)
	}
	return v.pass(fmt.Sprintf("never fewer than %d Ready", lowest), put)
}

var checkResumed = check{
	Kind: Kind{
		ID: "resumed", Title: "drain of %s resumed",
		Requires: "A pod that a budget kept on the node begins to terminate within a time of the budget's change.",
		Fix:      "retry an eviction that a budget refused (429) every few seconds, for as long as the notice leaves",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: did any eviction follow the change of the budget? Then the retries in handler.log"},
	},
	judge: by(resumed),
}

func resumed(j judge, v Verdict, c scenarios.Resumed) Verdict {
	v = v.wants(fmt.Sprintf("a pod that the budget kept terminating within %s of its change %q", c.Within.D(), c.Budget), c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	change, ok := j.First(func(e history.Event) bool { return e.Kind == history.BudgetSet && e.Step() == c.Budget })
	if !ok {
		return v.unknown(fmt.Sprintf("the budget was never changed by %q", c.Budget))
	}
	waiting := 0
	next := history.Event{}
	for _, p := range j.ToLeave(node, change.At) {
		terminating, ok := p.Terminating()
		if _, finished := p.Finished(); !p.In(change.Group()) || finished || ok && terminating.At < change.At {
			continue
		}
		waiting++
		if ok && (next.Kind == "" || terminating.At < next.At) {
			next = terminating
		}
	}
	limit := min(change.At+c.Within.D(), j.Gone(node))
	v.Numbers = map[string]float64{"waiting": float64(waiting)}
	switch {
	case waiting == 0:
		return v.unknown("no pod was waiting for the budget", change)
	case next.Kind != "" && next.At <= limit:
		v.Numbers["resumed_seconds"] = (next.At - change.At).Seconds()
		return v.pass(fmt.Sprintf("%s began to terminate after %s", next.Pod, history.Seconds(next.At-change.At)), change, next)
	case j.Unseen(limit) != "":
		return v.unknown("not resumed: "+j.Unseen(limit), change)
	case next.Kind != "" && j.mayBeInTime(next, limit) != "":
		return v.unknown(fmt.Sprintf("%s began to terminate after %s: %s", next.Pod, history.Seconds(next.At-change.At), j.mayBeInTime(next, limit)), change, next)
	case next.Kind != "":
		return v.fail(fmt.Sprintf("%s began to terminate only after %s", next.Pod, history.Seconds(next.At-change.At)), change, next)
	}
	return v.fail("no pod began to terminate", change)
}

var checkBlockedReported = check{
	Kind: Kind{
		ID: "blockedReported", Title: "blocked drain of %s reported",
		Requires: "A Kubernetes event on the node, or on a pod that a budget keeps there, names the pod or the budget before the deadline, and reports that the eviction was refused.",
		Fix:      "create an event on the node or the pod when a budget refuses an eviction; name the pod or the budget in it, and what the API server answered",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: which events the handler wrote, and whether one shows which pod or budget blocks the drain"},
	},
	judge: by(blockedReported),
}

func blockedReported(j judge, v Verdict, c scenarios.BlockedReported) Verdict {
	v = v.wants(fmt.Sprintf("an event on the node, or on a pod kept there, that names pod or budget and reports that the eviction was refused, before the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := min(*put.Until, j.Gone(node))
	var kept []story.Pod
	for _, p := range j.ToLeave(node, put.At) {
		if p.In(c.Pods) {
			kept = append(kept, p)
		}
	}
	report, ok := j.First(func(e history.Event) bool {
		return e.Kind == history.ClusterEvent && e.At >= put.At && e.At <= until && !story.KubernetesComponent(e.Owner) && reportsBlock(e, node, kept)
	})
	left, atDeadline := atDeadline(kept, until)
	v.Numbers = map[string]float64{"pods": float64(len(kept)), "left": float64(left)}
	switch {
	case len(kept) == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	case j.Unseen(until) != "" && (!ok || left != 0): // a pod that is leaving does not come back
		return v.unknown("the deadline was not seen: "+j.Unseen(until), put)
	case !ok:
		return v.fail("no event reports it; "+atDeadline, put)
	}
	v.Numbers["reported_seconds"] = (report.At - put.At).Seconds()
	return v.pass(fmt.Sprintf("%s by %s after %s; %s", report.KubernetesReason(), report.Owner, history.Seconds(report.At-put.At), atDeadline), put, report)
}

// blocked is how handlers, kubectl and the API server report that an eviction was refused.
var blocked = regexp.MustCompile(`(?i)block|cannot|can't|could not|unable|fail|violat|refus|reject|denied|prevent|not allowed|too ?many ?requests|\b429\b`)

// reportsBlock reports whether the event is about the node or a pod kept on it, names
// the pod or a budget, and reports that the eviction was refused, not only that it is
// requested.
func reportsBlock(e history.Event, node string, kept []story.Pod) bool {
	about := e.About("Node") && e.Node == node
	text := strings.ToLower(e.Note)
	names := slices.ContainsFunc([]string{"disruption budget", "disruptionbudget", "pdb"}, func(s string) bool { return strings.Contains(text, s) })
	for _, p := range kept {
		_, name, _ := strings.Cut(p.Name(), "/")
		about = about || e.About("Pod") && e.Pod == p.Name()
		names = names || name != "" && strings.Contains(text, name)
		text = strings.ReplaceAll(text, name, "") // a pod's name reports nothing, whatever it is
	}
	return about && names && (blocked.MatchString(e.KubernetesReason()) || blocked.MatchString(text))
}

// atDeadline describes what the handler had done with the pods until then.
func atDeadline(kept []story.Pod, until time.Duration) (left int, got string) {
	first := history.Event{}
	for _, p := range kept {
		terminating, ok := p.Terminating()
		if !ok || terminating.At > until {
			left++
			continue
		}
		if first.Kind == "" || terminating.At < first.At {
			first = terminating
		}
	}
	got = fmt.Sprintf("at the deadline %d of %d pods were still there", left, len(kept))
	if first.Kind != "" {
		got += fmt.Sprintf(", the first of the others began to terminate %s before it", history.Seconds(until-first.At))
	}
	return left, got
}
