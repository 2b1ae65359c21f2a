package recording

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
)

func (o observer) nodeAdded(n *corev1.Node, _ bool) {
	o.rec.Record(history.NewNodePresent(n.Name, nodes.Capacity(n), history.Instance(nodes.Instance(n))))
	o.nodeChanged(&corev1.Node{ObjectMeta: n.ObjectMeta, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}, n)
}

func (o observer) nodeChanged(before, after *corev1.Node) {
	record := func(e history.Event) {
		e.Instance = nodes.Instance(after)
		o.rec.Record(e)
	}
	if before.Spec.Unschedulable != after.Spec.Unschedulable {
		report := history.NewNodeUncordoned
		if after.Spec.Unschedulable {
			report = history.NewNodeCordoned
		}
		record(report(after.Name))
	}
	taint := func(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }
	was, is := keyed(before.Spec.Taints, taint), keyed(after.Spec.Taints, taint)
	for id, t := range is {
		if _, ok := was[id]; !ok {
			record(history.NewNodeTainted(after.Name, t.Key, string(t.Effect)))
		}
	}
	for id, t := range was {
		if _, ok := is[id]; !ok {
			record(history.NewNodeUntainted(after.Name, t.Key, string(t.Effect)))
		}
	}
	for _, e := range slices.Concat(
		changes(after.Name, history.NewNodeLabelled, history.NewNodeUnlabelled, before.Labels, after.Labels),
		changes(after.Name, history.NewNodeAnnotated, history.NewNodeUnannotated, before.Annotations, after.Annotations),
	) {
		record(e)
	}
	if b, a := nodes.Ready(before), nodes.Ready(after); b != a {
		e := history.NewNodeNotReady(after.Name, string(a))
		if a == corev1.ConditionTrue {
			e = history.NewNodeReady(after.Name)
		}
		record(e)
	}
}

// changes are the labels or annotations that were set, replaced or removed, by their keys.
func changes(node string, set func(node, key, value string, with ...history.Detail) history.Event, removed func(node, key string, with ...history.Detail) history.Event, before, after map[string]string) []history.Event {
	var out []history.Event
	for _, key := range slices.Sorted(maps.Keys(after)) {
		was, replaced := before[key]
		if is := after[key]; !replaced || was != is {
			e := set(node, key, is)
			if replaced {
				e.Note = strconv.Quote(was)
			}
			out = append(out, e)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			out = append(out, removed(node, key, history.Note(strconv.Quote(before[key]))))
		}
	}
	return out
}

func (o observer) nodeDeleted(n *corev1.Node) {
	o.rec.Record(history.NewNodeDeleted(n.Name, history.Instance(nodes.Instance(n))))
}

// owner returns the pod's controller as kind/name, or "" for a bare pod.
func owner(p *corev1.Pod) string {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.Kind + "/" + ref.Name
	}
	return ""
}

// podEvent is an event of the pod, made by one of the constructors of history.
func podEvent(report func(pod, uid string, with ...history.Detail) history.Event, p *corev1.Pod) history.Event {
	return report(p.Namespace+"/"+p.Name, string(p.UID), ofPod(p))
}

// podEventOf is podEvent for the constructors that also take a phase or a reason.
func podEventOf(report func(pod, uid, what string, with ...history.Detail) history.Event, p *corev1.Pod, what string) history.Event {
	return report(p.Namespace+"/"+p.Name, string(p.UID), what, ofPod(p))
}

func ofPod(p *corev1.Pod) history.Detail {
	return func(e *history.Event) { e.Node, e.Owner, e.IP = p.Spec.NodeName, owner(p), p.Status.PodIP }
}

// foundEvent is the first event of a pod. It has everything that its drain depends on.
func foundEvent(p *corev1.Pod, initial bool) history.Event {
	e := podEventOf(history.NewPodCreated, p, p.Labels["app"])
	if initial {
		e = history.NewPodPresent(e.Pod, e.UID, p.Labels["app"], string(p.Status.Phase), ofPod(p))
	}
	e.Note = tolerated(p)
	e.Numbers = history.Numbers{
		history.Priority: float64(ptr.Deref(p.Spec.Priority, 0)),
		history.Grace:    float64(ptr.Deref(p.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)),
	}
	if nodes.ToleratesCordon(p) {
		e.Numbers[history.ToleratesDrain] = 1
	}
	return e
}

func (o observer) podAdded(p *corev1.Pod, initial bool) {
	o.rec.Record(foundEvent(p, initial))
	before := &corev1.Pod{}
	if initial {
		before.Spec.NodeName, before.Status.Phase = p.Spec.NodeName, p.Status.Phase // which pod.present has
	}
	o.podChanged(before, p)
}

func (o observer) podChanged(before, after *corev1.Pod) {
	if before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		o.rec.Record(podEvent(history.NewPodScheduled, after))
	}
	if b, a := podutils.IsPodReady(before), podutils.IsPodReady(after); b != a {
		report := history.NewPodNotReady
		if a {
			report = history.NewPodReady
			if after.Labels[appLabel] == dnsService {
				o.dnsReady(after)
			}
		}
		o.rec.Record(podEvent(report, after))
	}
	if b, a := disruption(before), disruption(after); b == nil && a != nil {
		e := podEventOf(history.NewPodEvicted, after, a.Reason)
		e.Note, e.Said = a.Message, o.said(a.LastTransitionTime)
		o.rec.Record(e)
	}
	if after.DeletionTimestamp != nil && (before.DeletionTimestamp == nil || after.DeletionTimestamp.Before(before.DeletionTimestamp)) {
		e := podEvent(history.NewPodTerminating, after)
		grace := ptr.Deref(after.DeletionGracePeriodSeconds, 0)
		// deletionTimestamp is when the grace period ends, not when it began.
		e.Said = o.said(metav1.NewTime(after.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)))
		e.Numbers = history.Numbers{history.Grace: float64(grace)}
		o.rec.Record(e)
	}
	if b, a := restarts(before), restarts(after); a > b && len(before.Status.ContainerStatuses) > 0 {
		o.rec.Record(restarted(after, a))
	}
	if _, was := exited(before); !was {
		if at, is := exited(after); is {
			e := podEvent(history.NewPodExited, after)
			e.Said = o.said(at)
			if code := exitCode(after); code > 0 {
				e.Numbers = history.Numbers{history.ExitCode: float64(code)}
			}
			o.rec.Record(e)
		}
	}
	if !nodes.Finished(before) && nodes.Finished(after) {
		o.rec.Record(podEventOf(history.NewPodFinished, after, string(after.Status.Phase)))
	}
}

// tolerated are the keys of the NoSchedule taints that the pod tolerates whatever their
// value, by comma.
func tolerated(p *corev1.Pod) string {
	var keys []string
	for _, t := range p.Spec.Tolerations {
		if t.Effect != "" && t.Effect != corev1.TaintEffectNoSchedule || t.Operator != corev1.TolerationOpExists && t.Value != "" {
			continue
		}
		if key := cmp.Or(t.Key, history.AnyTaint); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ",")
}

func (o observer) podDeleted(p *corev1.Pod) {
	o.rec.Record(podEvent(history.NewPodDeleted, p))
}

// disruption returns the condition that shows who terminated the pod (KEP-3329), or nil.
func disruption(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// exited reports whether every container has exited, and when the last one did.
func exited(p *corev1.Pod) (metav1.Time, bool) {
	var last metav1.Time
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated == nil {
			return last, false
		}
		if t := s.State.Terminated.FinishedAt; t.After(last.Time) {
			last = t
		}
	}
	return last, len(p.Status.ContainerStatuses) > 0
}

// exitCode is the highest of the exit codes of the pod's containers.
func exitCode(p *corev1.Pod) int32 {
	highest := int32(0)
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			highest = max(highest, t.ExitCode)
		}
	}
	return highest
}

func restarts(p *corev1.Pod) int32 {
	n := int32(0)
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// restarted is the event of a restart, with the exit of the container that restarted last.
func restarted(p *corev1.Pod, restarts int32) history.Event {
	numbers := history.Numbers{history.Restarts: float64(restarts)}
	var last corev1.ContainerStateTerminated
	for _, s := range p.Status.ContainerStatuses {
		if t := s.LastTerminationState.Terminated; t != nil && !t.FinishedAt.Before(&last.FinishedAt) {
			last, numbers[history.ExitCode] = *t, float64(t.ExitCode)
		}
	}
	e := podEventOf(history.NewPodRestarted, p, last.Reason)
	e.Note, e.Numbers = last.Message, numbers
	return e
}

func (o observer) eventAdded(e *corev1.Event, initial bool) {
	if initial || (e.InvolvedObject.Kind != "Node" && e.InvolvedObject.Kind != "Pod") {
		return
	}
	out := history.NewClusterEvent(e.InvolvedObject.Kind, e.Reason, history.Note(e.Message), history.Owner(cmp.Or(e.ReportingController, e.Source.Component)))
	switch {
	case !e.EventTime.IsZero():
		out.Said = o.said(metav1.NewTime(e.EventTime.Time))
	default:
		out.Said = o.said(e.LastTimestamp)
	}
	if e.InvolvedObject.Kind == "Node" {
		out.Node = e.InvolvedObject.Name
	} else {
		out.Pod = e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
	}
	o.rec.Record(out)
}

// eventChanged records a repetition: recorders increment the count of an event instead of
// creating another.
func (o observer) eventChanged(before, after *corev1.Event) {
	if before.Count != after.Count || (after.Series != nil && (before.Series == nil || before.Series.Count != after.Series.Count)) {
		o.eventAdded(after, false)
	}
}

// endpoint is an address of an EndpointSlice with the conditions that kube-proxy uses.
type endpoint struct {
	ip, pod                     string
	ready, serving, terminating bool
}

func endpoints(s *discoveryv1.EndpointSlice) []endpoint {
	var out []endpoint
	for _, e := range s.Endpoints {
		pod := ""
		if e.TargetRef != nil {
			pod = e.TargetRef.Namespace + "/" + e.TargetRef.Name
		}
		for _, ip := range e.Addresses {
			out = append(out, endpoint{
				ip: ip, pod: pod,
				ready:       ptr.Deref(e.Conditions.Ready, true),
				serving:     ptr.Deref(e.Conditions.Serving, true),
				terminating: ptr.Deref(e.Conditions.Terminating, false),
			})
		}
	}
	return out
}

func (o observer) sliceAdded(s *discoveryv1.EndpointSlice, _ bool) {
	o.sliceChanged(&discoveryv1.EndpointSlice{}, s)
}

func (o observer) sliceDeleted(s *discoveryv1.EndpointSlice) {
	o.sliceChanged(s, &discoveryv1.EndpointSlice{})
}

func (o observer) sliceChanged(before, after *discoveryv1.EndpointSlice) {
	id := func(e endpoint) string { return e.ip + " " + e.pod }
	was, is := keyed(endpoints(before), id), keyed(endpoints(after), id)
	for k, a := range is {
		b, known := was[k]
		if a.terminating && (!known || !b.terminating || b.serving != a.serving) {
			o.rec.Record(history.NewEndpointTerminating(o.service, a.pod, a.ip, a.serving))
		}
		if a.ready && (!known || !b.ready) {
			o.rec.Record(history.NewEndpointReady(o.service, a.pod, a.ip))
		}
		if !a.ready && (!known || b.ready) {
			o.rec.Record(history.NewEndpointNotReady(o.service, a.pod, a.ip, history.Conditions{Serving: a.serving, Terminating: a.terminating}))
		}
	}
	for k, b := range was {
		if _, ok := is[k]; !ok {
			o.rec.Record(history.NewEndpointGone(o.service, b.pod, b.ip))
		}
	}
}

func keyed[T any](items []T, key func(T) string) map[string]T {
	out := make(map[string]T, len(items))
	for _, item := range items {
		out[key(item)] = item
	}
	return out
}
