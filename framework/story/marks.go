package story

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// MarkChange reports whether the event puts on or takes off a mark that the
// handler's description names. A taint that the scheduler may ignore is no mark.
func (st *Story) MarkChange(e history.Event) bool {
	handler := st.History.Meta.Handler
	switch e.Kind {
	case history.NodeCordoned, history.NodeUncordoned:
		return handler.Unschedulable && !st.PreparedCordon(e)
	case history.NodeTainted, history.NodeUntainted:
		return handler.Taint != "" && e.Setting().Key == handler.Taint && e.Setting().Value != softTaint
	}
	return false
}

// softTaint is the effect of a taint that the scheduler may ignore.
const softTaint = "PreferNoSchedule"

// Marking reports whether the event puts on a mark that the handler's description
// names.
func (st *Story) Marking(e history.Event) bool {
	return (e.Kind == history.NodeCordoned || e.Kind == history.NodeTainted) && st.MarkChange(e)
}

// MarkedAfter returns the first mark that the handler put on the node after the
// notice.
func (st *Story) MarkedAfter(node string, put history.Event) (history.Event, bool) {
	return st.First(func(e history.Event) bool {
		return e.Node == node && e.At >= put.At && st.Marking(e)
	})
}

// MarksAfter is the set of marks on a node after these changes of them, and the
// change that marked it.
func (st *Story) MarksAfter(changes []history.Event) (marks map[string]bool, mark history.Event) {
	marks = map[string]bool{}
	for _, e := range changes {
		name := "taint"
		if e.Kind == history.NodeCordoned || e.Kind == history.NodeUncordoned {
			name = "cordon"
		}
		if !st.Marking(e) {
			delete(marks, name)
			continue
		}
		if len(marks) == 0 {
			mark = e
		}
		marks[name] = true
	}
	return marks, mark
}

// Signs are what shows that the handler drains the node, by name: its marks being
// put on, and the event by which it announces a drain. After the harness ended it, a
// handler may announce once more that it goes on.
func (st *Story) Signs(node string) map[string][]history.Event {
	announces, gone := st.History.Meta.Handler.DrainEvent, st.Gone(node)
	signs := map[string][]history.Event{}
	var resumed []history.Event // what ended the handler, for each announcement after it
	for _, e := range st.Events {
		switch {
		case e.Node != node || e.At >= gone:
		case st.Marking(e):
			signs[string(e.Kind)] = append(signs[string(e.Kind)], e)
		case announces != "" && e.About("Node") && e.KubernetesReason() == announces:
			if ended, ok := st.ended(signs[announces], e); ok && !slices.ContainsFunc(resumed, func(r history.Event) bool { return r.Step() == ended.Step() }) {
				resumed = append(resumed, ended)
				continue
			}
			signs[announces] = append(signs[announces], e)
		}
	}
	return signs
}

// ended returns the last event by which the harness ended the handler's processes between
// the last announcement of a drain and another one.
func (st *Story) ended(announced []history.Event, again history.Event) (last history.Event, ok bool) {
	if len(announced) == 0 {
		return last, false
	}
	for _, e := range st.AllOf(history.HandlerDisturbed) {
		ends := []history.Disturbance{history.KillHandler, history.UpdateHandler, history.TerminateHandler, history.RetireHandler, history.MoveHandler, history.StopHandler}
		if slices.Contains(ends, e.Disturbance()) && e.At > announced[len(announced)-1].At && e.At <= again.At {
			last, ok = e, true
		}
	}
	return last, ok
}

// Most returns the sign that was given most often, the first by name among equals.
func Most(signs map[string][]history.Event) (sign string, n int) {
	for _, name := range slices.Sorted(maps.Keys(signs)) {
		if len(signs[name]) > n {
			sign, n = name, len(signs[name])
		}
	}
	return sign, n
}

// DrainBegun returns the first sign of a drain on the node.
func (st *Story) DrainBegun(node string) (first history.Event, ok bool) {
	for _, events := range st.Signs(node) {
		if !ok || events[0].At < first.At {
			first, ok = events[0], true
		}
	}
	return first, ok
}

// kubernetesTaint reports whether the taint is one that Kubernetes itself puts on
// nodes.
func kubernetesTaint(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/")
}

// KubernetesComponent reports whether the reporter's events appear on nodes whether
// or not a handler acts. An event without a reporter proves nothing either.
func KubernetesComponent(reporter string) bool {
	return slices.Contains([]string{
		"", "kubelet", "kube-proxy", "default-scheduler", "node-controller", "cloud-node-controller",
		"cloud-node-lifecycle-controller", "cidrAllocator", "attachdetach-controller", "taint-eviction-controller",
	}, reporter)
}

// MarkRequested finds, for a mark that was seen after its limit, the handler's write in the
// audit log that made it. If it is unknown whether the mark was in time, doubt shows why.
func MarkRequested(st *Story, put, mark history.Event, until time.Duration) (asked history.Event, doubt string) {
	if mark.At <= until {
		return asked, ""
	}
	var wrote, recent []history.Event
	earliest, _ := st.Earliest(mark)
	for _, e := range st.History.Events {
		if !e.WroteNode() || e.Node != mark.Node || e.Said == nil || *e.Said < put.At || *e.Said > mark.At {
			continue
		}
		e.At = *e.Said
		wrote = append(wrote, e)
		if e.At >= min(earliest, mark.At-SeenLate) {
			recent = append(recent, e)
		}
	}
	if len(wrote) == 0 {
		return asked, st.MayBeInTime(mark, until)
	}
	byTime := func(a, b history.Event) int { return cmp.Compare(a.At, b.At) }
	if last := slices.MaxFunc(wrote, byTime); last.At <= until {
		return last, ""
	}
	if len(recent) == 0 {
		recent = wrote
	}
	if first := slices.MinFunc(recent, byTime); first.At <= until {
		return asked, fmt.Sprintf("the audit log has several writes of the handler's, and the one at +%s was in time", history.Seconds(first.At))
	}
	return asked, ""
}

// ClaimedMarks are the marks that the description of a handler names, in words.
func ClaimedMarks(h history.Handler) string {
	var marks []string
	if h.Unschedulable {
		marks = append(marks, "cordoned")
	}
	if h.Taint != "" {
		marks = append(marks, "tainted "+h.Taint)
	}
	if len(marks) == 0 {
		return "marked"
	}
	return strings.Join(marks, " or ")
}

// ReportsOn reports whether an event about the node of the notice came after it, and not
// from Kubernetes itself.
func ReportsOn(st *Story, e, put history.Event) bool {
	return e.About("Node") && e.Node == put.Node && e.At >= put.At && !KubernetesComponent(e.Owner)
}

// ByHandler reports whether the handler reported the event. If its description does not
// name its reporter, that shows by the handler's names, or by an event that is about the
// notice: add-ons report about nodes too, such as that one has no GPU.
func ByHandler(st *Story, e, put history.Event) bool {
	handler := st.History.Meta.Handler
	if handler.Reporter != "" {
		return e.Owner == handler.Reporter
	}
	_, workload, _ := strings.Cut(handler.Workload(), "/")
	return e.Owner == handler.Name || e.Owner == workload ||
		put.Instance != "" && strings.Contains(e.Note, put.Instance) || put.Notice != "" && strings.Contains(e.Note, put.Notice) ||
		slices.ContainsFunc(aboutInterruption(), func(word string) bool { return strings.Contains(strings.ToLower(e.KubernetesReason()), word) })
}

// AboutInterruption are words of the reasons by which handlers report an interruption.
func aboutInterruption() []string {
	return []string{"interrupt", "rebalance", "drain", "stopping", "terminating", "scheduledchange", "scheduledevent", "statechange"}
}

// blocked is how handlers, kubectl and the API server report that an eviction was refused.
var blocked = regexp.MustCompile(`(?i)block|cannot|can't|could not|unable|fail|violat|refus|reject|denied|prevent|not allowed|too ?many ?requests|\b429\b`)

// reportsBlock reports whether the event is about the node or a pod kept on it, names
// the pod or a budget, and reports that the eviction was refused, not only that it is
// requested.
func reportsBlock(e history.Event, node string, kept []Pod) bool {
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

// BlockReports are the events from the notice until that time which report that pods that are kept on
// its node were not evicted.
func BlockReports(st *Story, put history.Event, until time.Duration, kept []Pod) []history.Event {
	return st.All(func(e history.Event) bool {
		return e.Kind == history.ClusterEvent && e.At >= put.At && e.At <= until && !KubernetesComponent(e.Owner) && reportsBlock(e, put.Node, kept)
	})
}
