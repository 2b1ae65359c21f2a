package story

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// UnderWay is what began while a cluster was observed or a drill was played, and has not ended.
type UnderWay struct {
	What  string        // in words, with its name
	Since history.Event // by which it began
}

func (u UnderWay) String() string {
	return fmt.Sprintf("%s since +%s", u.What, history.Seconds(u.Since.At))
}

// StillUnderWay finds what began after the observation did and has not ended by the end of its
// record: rollouts; pods of CoreDNS and of the observed application that terminate or are not Ready;
// pods that were evicted; nodes that are not Ready, that their pods have to leave, or that are about to
// be removed. What was so before is not waited for. last is when the last of what has ended did.
//
// A drill of spotdrill's own begins with its steps. Its checks judge nodes and evictions; what
// keeps its record going is what can still lose queries, see ofDrill.
func StillUnderWay(st *Story) (open []UnderWay, last time.Duration) {
	begun, ok := st.Begun, st.Begun < math.MaxInt64 && st.Scenario.Probe != nil
	if st.Scenario.Observe != nil {
		begun, ok = st.Started()
	}
	if !ok {
		return nil, 0
	}
	w := underWay{st: st, begun: begun, last: begun, open: map[string]UnderWay{}}
	w.rollouts()
	measured := w.endpoints()
	w.pods(measured)
	if st.Scenario.Observe != nil {
		w.nodes()
	} else {
		w.ofDrill(measured)
	}
	for _, u := range w.open {
		open = append(open, u)
	}
	slices.SortFunc(open, func(a, b UnderWay) int {
		return strings.Compare(fmt.Sprintf("%020d %s", a.Since.At, a.What), fmt.Sprintf("%020d %s", b.Since.At, b.What))
	})
	return open, w.last
}

type underWay struct {
	st          *Story
	begun, last time.Duration
	open        map[string]UnderWay // by the name of a pod, a node, …
}

// is takes the latest state of something: that it is under way, in words, or "" if it has ended.
func (w *underWay) is(name, what string, since history.Event) {
	if since.At < w.begun {
		return
	}
	w.last = max(w.last, since.At)
	if what == "" {
		delete(w.open, name)
		return
	}
	w.open[name] = UnderWay{what, since}
}

func (w *underWay) rollouts() {
	for _, e := range w.st.AllOf(history.RolloutProgressing, history.RolloutComplete) {
		what := ""
		if e.Kind == history.RolloutProgressing {
			what = fmt.Sprintf("the rollout of %s is not complete (%s)", e.Workload(), e.Note)
		}
		w.is(e.Workload(), what, e)
	}
}

// endpoints takes what the EndpointSlices show, and returns the workloads behind them with their
// names in words.
func (w *underWay) endpoints() map[string]string {
	workloads := map[string]string{}
	for _, e := range w.st.AllOf(history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone) {
		of := "CoreDNS"
		if e.Service() != "" {
			of = "the application"
		}
		for _, p := range w.st.Pods {
			if p.Name() == e.Pod && e.Pod != "" {
				workloads[workload(p)] = of
			}
		}
		name, what := e.Pod, ""
		if name == "" {
			name = e.IP
		}
		switch {
		case e.Kind == history.EndpointReady || e.Kind == history.EndpointGone:
		case e.Conditions().Terminating:
			what = fmt.Sprintf("pod %s of %s terminates", name, of)
		default:
			what = fmt.Sprintf("pod %s of %s is not Ready", name, of)
		}
		if was, known := w.open[name]; known && was.What == what {
			continue // since the first sign of it
		}
		w.is(name, what, e)
	}
	return workloads
}

// workload is the namespace and controller of a pod, without the hash of a ReplicaSet: its pods
// before and after a rollout belong together. A pod without a controller is one of its own.
func workload(p Pod) string {
	namespace, _, _ := strings.Cut(p.Name(), "/")
	kind, of, controlled := strings.Cut(p.Controller(), "/")
	switch {
	case !controlled:
		return p.Name()
	case kind == "ReplicaSet" && strings.Contains(of, "-"):
		of = of[:strings.LastIndex(of, "-")]
	}
	return namespace + "/" + kind + "/" + of
}

// pods takes the pods themselves: a new one has no endpoint before it has an IP.
func (w *underWay) pods(workloads map[string]string) {
	for _, p := range w.st.Pods {
		evicted, was := p.FirstOf(history.PodEvicted)
		of := workloads[workload(p)]
		if left, ok := p.Left(); ok {
			if was || of != "" { // the end of any other pod concerns nobody
				w.is(p.Name(), "", left)
			}
			continue
		}
		switch terminating, ends := p.Terminating(); {
		case was:
			w.is(p.Name(), fmt.Sprintf("pod %s was evicted and has not ended", p.Name()), evicted)
		case of == "":
		case ends:
			w.is(p.Name(), fmt.Sprintf("pod %s of %s terminates", p.Name(), of), terminating)
		default:
			w.readiness(p, of)
		}
	}
}

func (w *underWay) readiness(p Pod, of string) {
	since := p.Events[0]
	for _, e := range p.Events {
		if e.Kind == history.PodReady || e.Kind == history.PodNotReady {
			since = e
		}
	}
	if since.Kind == history.PodReady {
		w.is(p.Name(), "", since)
		return
	}
	w.is(p.Name(), fmt.Sprintf("pod %s of %s is not Ready", p.Name(), of), since)
}

// ofDrill leaves rollouts, and pods of CoreDNS and of the application that is measured on nodes that
// still run, until their containers have ended. A pod without a node waits for room, and one that refuses a broken Corefile is not
// to become Ready: neither was ever queried.
func (w *underWay) ofDrill(measured map[string]string) {
	refuse := slices.ContainsFunc(w.st.Scenario.Actions(scenarios.OnCoreDNS, scenarios.Configure), func(d scenarios.Do) bool {
		return d.Corefile == scenarios.BrokenCorefile
	})
	counts := map[string]bool{"CoreDNS": true, "the application": w.st.Scenario.Probe.Application != nil}
	for _, p := range w.st.Pods {
		_, reclaimed := w.st.Reclaimed(p.Node())
		_, ends := p.Terminating()
		_, stopped := p.Stopped()
		if !counts[measured[workload(p)]] || p.Node() == "" || reclaimed || stopped || !ends && (refuse || !w.st.runs(p.Node())) {
			delete(w.open, p.Name())
		}
	}
}

// runs reports whether the node was Ready when it was last seen.
func (st *Story) runs(node string) bool {
	ready := true
	for _, e := range st.AllOf(history.NodeReady, history.NodeNotReady, history.NodeDeleted) {
		if e.Node == node {
			ready = e.Kind == history.NodeReady
		}
	}
	return ready
}

// removing are the taints of autoscalers on a node that they are about to remove.
var removing = []string{"karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler"}

// nodeTaint begins the keys of the taints that follow from the conditions of a node.
const nodeTaint = "node.kubernetes.io/"

func (w *underWay) nodes() {
	for _, node := range w.st.nodeNames() {
		var notReady, cordoned, removed history.Event // since when it is so; none if it is not
		stays := false                                // a notice about it is synthetic: it is put back
		for _, e := range w.st.Events {
			if e.Node != node {
				continue
			}
			switch taint := e.Setting(); e.Kind {
			case history.NoticePut:
				stays = true
			case history.NodeNotReady:
				notReady = e
			case history.NodeReady:
				w.is(node+" ready", "", e)
				notReady = history.Event{}
			case history.NodeCordoned:
				cordoned = e
			case history.NodeTainted:
				switch {
				case slices.Contains(removing, taint.Key) && !stays:
					removed = e
				case !strings.HasPrefix(taint.Key, nodeTaint) && taint.Value != "PreferNoSchedule" && cordoned.Kind == "":
					cordoned = e
				}
			case history.NodeUncordoned, history.NodeUntainted:
				if slices.Contains(removing, taint.Key) {
					removed = history.Event{}
				} else if e.Kind == history.NodeUncordoned || taint.Key == cordoned.Setting().Key {
					cordoned = history.Event{}
				}
			case history.NodeDeleted:
				w.is(node, "", e)
				notReady, cordoned, removed = history.Event{}, history.Event{}, history.Event{}
			}
		}
		if notReady.Kind != "" {
			w.is(node+" ready", "node "+node+" is not Ready", notReady)
		}
		switch {
		case removed.Kind != "":
			w.is(node, fmt.Sprintf("node %s is about to be removed (taint %s)", node, removed.Setting().Key), removed)
		case cordoned.Kind != "" && cordoned.At >= w.begun:
			w.leaving(node, cordoned)
		}
	}
}

// leaving takes a node that its pods have to leave: once they have, its cordon may stay.
func (w *underWay) leaving(node string, cordoned history.Event) {
	var stay []string
	for _, p := range w.st.ToLeave(node, cordoned.At) {
		left, ok := p.Left()
		if ok {
			w.last = max(w.last, left.At)
		} else {
			stay = append(stay, p.Name())
		}
	}
	if len(stay) > 0 {
		w.is(node, fmt.Sprintf("node %s is being emptied: %s still has to leave it", node, list(stay)), cordoned)
	}
}

// list names a few of what there is, and counts the rest.
func list(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// nodeNames are the nodes of the drill's events, in the order in which they were seen.
func (st *Story) nodeNames() (names []string) {
	for _, e := range st.Events {
		if strings.HasPrefix(string(e.Kind), "node.") && e.Node != "" && !slices.Contains(names, e.Node) {
			names = append(names, e.Node)
		}
	}
	return names
}

// Unwatched is why it is not known what was under way: the client had no right to watch it. It is
// empty if all was watched.
func Unwatched(st *Story) string {
	const hint = "spotdrill observe --print-rbac prints the rights"
	dns, _ := st.First(func(e history.Event) bool { return e.Kind == history.EndpointReady && e.Service() == "" && e.Pod != "" })
	namespace, _, _ := strings.Cut(dns.Pod, "/") // the application has workloads of its own
	if _, ok := st.First(func(e history.Event) bool {
		parts := strings.Split(e.Workload(), "/")
		return len(parts) == 3 && (namespace == "" || parts[1] == namespace)
	}); !ok {
		return "rollouts were not watched: no right to list and watch the Deployments and DaemonSets next to CoreDNS; " + hint
	}
	if p := st.Scenario.Probe; p == nil || p.Application == nil {
		return ""
	}
	_, found := st.First(func(e history.Event) bool {
		return e.Kind == history.TargetFound && e.Target() == history.Application || e.Service() == scenarios.App
	})
	if !found {
		return "the pods of the application were not watched: no right to list Services, and to watch EndpointSlices and the workloads of its namespace; " + hint + ", with --application"
	}
	return ""
}
