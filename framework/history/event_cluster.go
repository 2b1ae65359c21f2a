package history

import (
	"fmt"
	"strings"
)

// What the watcher saw of nodes, and what became of the instances that were launched for the cluster,
// in addition to its fixed workers.
const (
	NodePresent    Kind = "node.present"
	NodeCordoned   Kind = "node.cordoned"
	NodeUncordoned Kind = "node.uncordoned"
	NodeTainted    Kind = "node.tainted"
	NodeUntainted  Kind = "node.untainted"
	NodeReady      Kind = "node.ready"
	NodeNotReady   Kind = "node.notready"
	NodeDeleted    Kind = "node.deleted"
	// Labels and annotations that change; those that are there at first are not on record.
	NodeLabelled    Kind = "node.labelled"
	NodeUnlabelled  Kind = "node.unlabelled"
	NodeAnnotated   Kind = "node.annotated"
	NodeUnannotated Kind = "node.unannotated"

	InstanceLaunched Kind = "instance.launched"
	InstanceJoined   Kind = "instance.joined"
	InstanceFailed   Kind = "instance.failed"
	InstanceEnded    Kind = "instance.ended"
)

// The constructors of these events.
var (
	// NewNodePresent reports a node that existed when recording started, or that came. Capacity is spot,
	// on-demand or control-plane. Instance.
	NewNodePresent = event2(NodePresent, Node, about)
	// NewNodeCordoned reports that a node is unschedulable.
	NewNodeCordoned = event1(NodeCordoned, Node)
	// NewNodeUncordoned reports that a node is schedulable again.
	NewNodeUncordoned = event1(NodeUncordoned, Node)
	// NewNodeTainted reports that a node has a taint.
	NewNodeTainted = event3(NodeTainted, Node, about, why)
	// NewNodeUntainted reports that a node has a taint no more.
	NewNodeUntainted = event3(NodeUntainted, Node, about, why)
	// NewNodeLabelled reports that a label was set. Note: the value that it replaced, quoted.
	NewNodeLabelled = event3(NodeLabelled, Node, about, why)
	// NewNodeUnlabelled reports that a label was removed. Note: the value that it had, quoted.
	NewNodeUnlabelled = event2(NodeUnlabelled, Node, about)
	// NewNodeAnnotated is NewNodeLabelled for an annotation.
	NewNodeAnnotated = event3(NodeAnnotated, Node, about, why)
	// NewNodeUnannotated is NewNodeUnlabelled for an annotation.
	NewNodeUnannotated = event2(NodeUnannotated, Node, about)
	// NewNodeNotReady reports that the condition Ready of a node became False or Unknown.
	NewNodeNotReady = event2(NodeNotReady, Node, why)
	// NewNodeDeleted reports that a Node object is gone.
	NewNodeDeleted = event1(NodeDeleted, Node)
	// NewInstanceLaunched reports an instance that was launched. Owner: NodePool/… that it was launched for.
	NewInstanceLaunched = event3(InstanceLaunched, Instance, about, why)
	// NewInstanceJoined reports that the kubelet of an instance registered. Numbers: took (s, from when the
	// launch was seen).
	NewInstanceJoined = event2(InstanceJoined, Instance, Node)
	// NewInstanceFailed reports why an instance did not become a node.
	NewInstanceFailed = event3(InstanceFailed, Instance, Node, Note)
	// NewInstanceEnded reports that an instance was terminated, and its container killed.
	NewInstanceEnded = event2(InstanceEnded, Instance, Node)
)

// Capacity is the capacity type of the node of a NodePresent.
func (e Event) Capacity() string { return e.keyOf(NodePresent) }

// Setting is a taint, label or annotation of a node. The Value of a taint is its effect.
type Setting struct{ Key, Value string }

// Setting is what was set on the node, or removed from it; none of a cordon.
func (e Event) Setting() Setting {
	kinds := []Kind{NodePrepared, NodeTainted, NodeUntainted, NodeLabelled, NodeUnlabelled, NodeAnnotated, NodeUnannotated}
	return Setting{e.keyOf(kinds...), e.reasonOf(kinds...)}
}

// NewNodeReady reports that a node became Ready.
func NewNodeReady(node string, with ...Detail) Event {
	return newEvent(NodeReady, with, Node(node), why("True"))
}

// ReadyStatus is the status of the condition Ready of a NodeReady or NodeNotReady.
func (e Event) ReadyStatus() string { return e.reasonOf(NodeReady, NodeNotReady) }

// InstanceType is the type of the instance of an InstanceLaunched.
func (e Event) InstanceType() string { return e.keyOf(InstanceLaunched) }

// Zone is the zone of the instance of an InstanceLaunched.
func (e Event) Zone() string { return e.reasonOf(InstanceLaunched) }

// What the watcher saw of pods. All of them have Pod, UID, Node, Owner and IP.
const (
	PodPresent     Kind = "pod.present"
	PodCreated     Kind = "pod.created"
	PodScheduled   Kind = "pod.scheduled"
	PodReady       Kind = "pod.ready"
	PodNotReady    Kind = "pod.notready"
	PodEvicted     Kind = "pod.evicted"
	PodTerminating Kind = "pod.terminating"
	PodSignalled   Kind = "pod.sigterm"
	PodLameduck    Kind = "pod.lameduck"
	PodExited      Kind = "pod.exited"
	PodFinished    Kind = "pod.finished"
	PodRestarted   Kind = "pod.restarted"
	PodDeleted     Kind = "pod.deleted"
)

// The constructors of these events.
var (
	// NewPodPresent reports a pod that existed when recording started, as NewPodCreated. Phase is the pod's.
	NewPodPresent = event4(PodPresent, Pod, UID, about, why)
	// NewPodCreated reports a new pod. App is its label app. Numbers: priority, grace (s, its own),
	// tolerates_cordon (1, or left out); Note: keys of the NoSchedule taints that it tolerates, by comma, * for all.
	NewPodCreated = event3(PodCreated, Pod, UID, about)
	// NewPodScheduled reports that a pod was bound to its Node.
	NewPodScheduled = event2(PodScheduled, Pod, UID)
	// NewPodReady reports that a pod became Ready.
	NewPodReady = event2(PodReady, Pod, UID)
	// NewPodNotReady reports that a pod is not Ready any more.
	NewPodNotReady = event2(PodNotReady, Pod, UID)
	// NewPodEvicted reports the condition DisruptionTarget. Its reason is EvictionByEvictionAPI, for example.
	NewPodEvicted = event3(PodEvicted, Pod, UID, why)
	// NewPodTerminating reports that a deletionTimestamp was set, or the grace period cut short. Numbers: grace (s).
	NewPodTerminating = event2(PodTerminating, Pod, UID)
	// NewPodSignalled reports that a CoreDNS pod logged SIGTERM.
	NewPodSignalled = event2(PodSignalled, Pod, UID)
	// NewPodLameduck reports that a CoreDNS pod logged that its lameduck begins. Numbers: seconds.
	NewPodLameduck = event2(PodLameduck, Pod, UID)
	// NewPodExited reports that every container terminated. Numbers: exit_code, the highest, if not 0.
	NewPodExited = event2(PodExited, Pod, UID)
	// NewPodFinished reports that the containers of a pod have ended for good. Phase is Succeeded or Failed.
	NewPodFinished = event3(PodFinished, Pod, UID, why)
	// NewPodRestarted reports that a container was started again, and the reason why it had ended. Numbers:
	// restarts, exit_code.
	NewPodRestarted = event3(PodRestarted, Pod, UID, why)
	// NewPodDeleted reports that a pod is gone from the API.
	NewPodDeleted = event2(PodDeleted, Pod, UID)
)

// Group is the group of pods that an event is about: of a PodPresent or PodCreated the label app, of a
// BudgetSet whose budget it is.
func (e Event) Group() string { return e.keyOf(PodPresent, PodCreated, BudgetSet) }

// PodPhase is the phase of the pod of a PodPresent or PodFinished.
func (e Event) PodPhase() string { return e.reasonOf(PodPresent, PodFinished) }

// What else the watcher saw in the cluster.
const (
	EndpointReady       Kind = "endpoint.ready"
	EndpointNotReady    Kind = "endpoint.notready"
	EndpointTerminating Kind = "endpoint.terminating"
	EndpointGone        Kind = "endpoint.gone"

	// A watch that breaks misses nothing as long as it can be resumed, but what happened
	// meanwhile is seen late.
	WatchLost Kind = "watch.lost"
	WatchBack Kind = "watch.back"

	ClusterEvent Kind = "event"

	RolloutProgressing Kind = "rollout.progressing"
	RolloutComplete    Kind = "rollout.complete"

	ClusterGrown Kind = "cluster.grown"
)

// The constructors of these events.
var (
	// NewEndpointReady reports that an address of the EndpointSlices of a service is ready. The service is
	// empty for kube-dns, as for the other events of endpoints.
	NewEndpointReady = event3(EndpointReady, about, Pod, IP)
	// NewEndpointNotReady reports that an address is not ready.
	NewEndpointNotReady = event4(EndpointNotReady, about, Pod, IP, conditions)
	// NewEndpointTerminating reports that an address terminates, and whether it still serves.
	NewEndpointTerminating = event4(EndpointTerminating, about, Pod, IP, stillServes)
	// NewEndpointGone reports that an address left the EndpointSlices.
	NewEndpointGone = event3(EndpointGone, about, Pod, IP)
	// NewWatchLost reports that the watch of nodes, pods, … broke. Said: when it last delivered something.
	NewWatchLost = event1(WatchLost, about)
	// NewWatchBack reports that the watch is back. What happened meanwhile is on record before it or right
	// after it, unless Note states otherwise.
	NewWatchBack = event1(WatchBack, about)
	// NewClusterEvent is an event of Kubernetes about an object of a kind. Node or Pod: the object; Note: its
	// message; Owner: the component that reported it.
	NewClusterEvent = event2(ClusterEvent, about, why)
	// NewRolloutProgressing reports that not all pods of a Deployment or DaemonSet are of its newest template and
	// available. Note: how many are. The workload is kind/namespace/name, as in NewRolloutComplete.
	NewRolloutProgressing = event2(RolloutProgressing, about, Note)
	// NewRolloutComplete reports that all of them are.
	NewRolloutComplete = event1(RolloutComplete, about)
	// NewClusterGrown reports that virtual nodes join the cluster, or leave it. Numbers: virtual_nodes, cores
	// (of all of them).
	NewClusterGrown = event0(ClusterGrown)
)

// Workload is the kind/namespace/name of a RolloutProgressing or RolloutComplete.
func (e Event) Workload() string { return e.keyOf(RolloutProgressing, RolloutComplete) }

// Conditions of an endpoint.
type Conditions struct{ Serving, Terminating bool }

func (c Conditions) String() string {
	return fmt.Sprintf("serving=%t terminating=%t", c.Serving, c.Terminating)
}

func conditions(now Conditions) Detail { return why(now.String()) }

func stillServes(serving bool) Detail {
	if serving {
		return why("serving")
	}
	return why("not-serving")
}

// Service is the service whose endpoint the event is about; empty for kube-dns.
func (e Event) Service() string {
	return e.keyOf(EndpointReady, EndpointNotReady, EndpointTerminating, EndpointGone)
}

// Conditions are those of an EndpointNotReady or EndpointTerminating.
func (e Event) Conditions() Conditions {
	return Conditions{
		Serving:     e.reasonOf(EndpointTerminating) == "serving" || strings.HasPrefix(e.reasonOf(EndpointNotReady), "serving=true"),
		Terminating: e.Kind == EndpointTerminating || strings.Contains(e.reasonOf(EndpointNotReady), "terminating=true"),
	}
}

// Watch is what a WatchLost or WatchBack is about: nodes, pods, ….
func (e Event) Watch() string { return e.keyOf(WatchLost, WatchBack) }

// About reports whether the event is one of Kubernetes about an object of that kind.
func (e Event) About(kind string) bool { return e.Kind == ClusterEvent && e.key.Text == kind }

// KubernetesReason is the reason that Kubernetes gives: of an event, an eviction, or the end of a container.
func (e Event) KubernetesReason() string { return e.reasonOf(ClusterEvent, PodEvicted, PodRestarted) }
