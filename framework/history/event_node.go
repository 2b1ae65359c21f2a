package history

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
