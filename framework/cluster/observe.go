package cluster

import (
	"cmp"
	"fmt"
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
)

func (o observer) nodeAdded(n *corev1.Node, _ bool) {
	o.rec.Record(history.Event{Kind: history.NodePresent, Node: n.Name, Key: capacityOf(n), Instance: instanceOf(n)})
	o.nodeChanged(&corev1.Node{ObjectMeta: n.ObjectMeta, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}, n)
}

func (o observer) nodeChanged(before, after *corev1.Node) {
	record := func(e history.Event) {
		e.Node, e.Instance = after.Name, instanceOf(after)
		o.rec.Record(e)
	}
	if before.Spec.Unschedulable != after.Spec.Unschedulable {
		kind := history.NodeUncordoned
		if after.Spec.Unschedulable {
			kind = history.NodeCordoned
		}
		record(history.Event{Kind: kind})
	}
	taint := func(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }
	was, is := keyed(before.Spec.Taints, taint), keyed(after.Spec.Taints, taint)
	for id, t := range is {
		if _, ok := was[id]; !ok {
			record(history.Event{Kind: history.NodeTainted, Key: t.Key, Reason: string(t.Effect)})
		}
	}
	for id, t := range was {
		if _, ok := is[id]; !ok {
			record(history.Event{Kind: history.NodeUntainted, Key: t.Key, Reason: string(t.Effect)})
		}
	}
	for _, e := range slices.Concat(
		changes(history.NodeLabelled, history.NodeUnlabelled, before.Labels, after.Labels),
		changes(history.NodeAnnotated, history.NodeUnannotated, before.Annotations, after.Annotations),
	) {
		record(e)
	}
	if b, a := readyStatus(before), readyStatus(after); b != a {
		kind := history.NodeNotReady
		if a == corev1.ConditionTrue {
			kind = history.NodeReady
		}
		record(history.Event{Kind: kind, Reason: string(a)})
	}
}

// changes are the labels or annotations that were set, replaced or removed, by their keys.
func changes(set, removed history.Kind, before, after map[string]string) []history.Event {
	var out []history.Event
	for _, key := range slices.Sorted(maps.Keys(after)) {
		was, replaced := before[key]
		if is := after[key]; !replaced || was != is {
			e := history.Event{Kind: set, Key: key, Reason: is}
			if replaced {
				e.Note = strconv.Quote(was)
			}
			out = append(out, e)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			out = append(out, history.Event{Kind: removed, Key: key, Note: strconv.Quote(before[key])})
		}
	}
	return out
}

func (o observer) nodeDeleted(n *corev1.Node) {
	o.rec.Record(history.Event{Kind: history.NodeDeleted, Node: n.Name, Instance: instanceOf(n)})
}

// owner returns the pod's controller as kind/name, or "" for a bare pod.
func owner(p *corev1.Pod) string {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.Kind + "/" + ref.Name
	}
	return ""
}

func podEvent(kind history.Kind, p *corev1.Pod) history.Event {
	return history.Event{Kind: kind, Pod: p.Namespace + "/" + p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Owner: owner(p), IP: p.Status.PodIP}
}

// foundEvent is the first event of a pod. It has everything that its drain depends on.
func foundEvent(p *corev1.Pod, initial bool) history.Event {
	e := podEvent(history.PodCreated, p)
	if initial {
		e.Kind, e.Reason = history.PodPresent, string(p.Status.Phase)
	}
	e.Key, e.Note = p.Labels["app"], tolerated(p)
	e.Numbers = history.Numbers{
		history.Priority: float64(ptr.Deref(p.Spec.Priority, 0)),
		history.Grace:    float64(ptr.Deref(p.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)),
	}
	if toleratesCordon(p) {
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
		o.rec.Record(podEvent(history.PodScheduled, after))
	}
	if b, a := podutils.IsPodReady(before), podutils.IsPodReady(after); b != a {
		kind := history.PodNotReady
		if a {
			kind = history.PodReady
			if after.Labels[appLabel] == dnsService {
				o.dnsReady(after)
			}
		}
		o.rec.Record(podEvent(kind, after))
	}
	if b, a := disruption(before), disruption(after); b == nil && a != nil {
		e := podEvent(history.PodEvicted, after)
		e.Reason, e.Note, e.Said = a.Reason, a.Message, o.said(a.LastTransitionTime)
		o.rec.Record(e)
	}
	if after.DeletionTimestamp != nil && (before.DeletionTimestamp == nil || after.DeletionTimestamp.Before(before.DeletionTimestamp)) {
		e := podEvent(history.PodTerminating, after)
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
			e := podEvent(history.PodExited, after)
			e.Said = o.said(at)
			if code := exitCode(after); code > 0 {
				e.Numbers = history.Numbers{history.ExitCode: float64(code)}
			}
			o.rec.Record(e)
		}
	}
	if !finished(before) && finished(after) {
		e := podEvent(history.PodFinished, after)
		e.Reason = string(after.Status.Phase)
		o.rec.Record(e)
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

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (o observer) podDeleted(p *corev1.Pod) {
	o.rec.Record(podEvent(history.PodDeleted, p))
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
	e := podEvent(history.PodRestarted, p)
	e.Numbers = history.Numbers{history.Restarts: float64(restarts)}
	var last metav1.Time
	for _, s := range p.Status.ContainerStatuses {
		if t := s.LastTerminationState.Terminated; t != nil && !t.FinishedAt.Before(&last) {
			last = t.FinishedAt
			e.Reason, e.Note, e.Numbers[history.ExitCode] = t.Reason, t.Message, float64(t.ExitCode)
		}
	}
	return e
}

func (o observer) eventAdded(e *corev1.Event, initial bool) {
	if initial || (e.InvolvedObject.Kind != "Node" && e.InvolvedObject.Kind != "Pod") {
		return
	}
	out := history.Event{
		Kind: history.ClusterEvent, Key: e.InvolvedObject.Kind, Reason: e.Reason, Note: e.Message,
		Owner: cmp.Or(e.ReportingController, e.Source.Component),
	}
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
		record := func(kind history.Kind, reason string) {
			o.rec.Record(history.Event{Kind: kind, Key: o.service, IP: a.ip, Pod: a.pod, Reason: reason})
		}
		if a.terminating && (!known || !b.terminating || b.serving != a.serving) {
			reason := "not-serving"
			if a.serving {
				reason = "serving"
			}
			record(history.EndpointTerminating, reason)
		}
		if a.ready && (!known || !b.ready) {
			record(history.EndpointReady, "")
		}
		if !a.ready && (!known || b.ready) {
			record(history.EndpointNotReady, fmt.Sprintf("serving=%t terminating=%t", a.serving, a.terminating))
		}
	}
	for k, b := range was {
		if _, ok := is[k]; !ok {
			o.rec.Record(history.Event{Kind: history.EndpointGone, Key: o.service, IP: b.ip, Pod: b.pod})
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
