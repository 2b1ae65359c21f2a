package story

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

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
