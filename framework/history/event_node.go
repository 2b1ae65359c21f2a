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

// NewNodePresent reports a node that existed when recording started, or that came. Capacity is spot,
// on-demand or control-plane. Instance.
func NewNodePresent(node, capacity string, with ...Detail) Event {
	return newEvent(NodePresent, capacity, "", with, Node(node))
}

// Capacity is the capacity type of the node of a NodePresent.
func (e Event) Capacity() string { return e.keyOf(NodePresent) }

// NewNodeCordoned reports that a node is unschedulable.
func NewNodeCordoned(node string, with ...Detail) Event {
	return newEvent(NodeCordoned, "", "", with, Node(node))
}

// NewNodeUncordoned reports that a node is schedulable again.
func NewNodeUncordoned(node string, with ...Detail) Event {
	return newEvent(NodeUncordoned, "", "", with, Node(node))
}

// NewNodeTainted reports that a node has a taint.
func NewNodeTainted(node, key, effect string, with ...Detail) Event {
	return newEvent(NodeTainted, key, effect, with, Node(node))
}

// NewNodeUntainted reports that a node has a taint no more.
func NewNodeUntainted(node, key, effect string, with ...Detail) Event {
	return newEvent(NodeUntainted, key, effect, with, Node(node))
}

// NewNodeLabelled reports that a label was set. Note: the value that it replaced, quoted.
func NewNodeLabelled(node, key, value string, with ...Detail) Event {
	return newEvent(NodeLabelled, key, value, with, Node(node))
}

// NewNodeUnlabelled reports that a label was removed. Note: the value that it had, quoted.
func NewNodeUnlabelled(node, key string, with ...Detail) Event {
	return newEvent(NodeUnlabelled, key, "", with, Node(node))
}

// NewNodeAnnotated is NewNodeLabelled for an annotation.
func NewNodeAnnotated(node, key, value string, with ...Detail) Event {
	return newEvent(NodeAnnotated, key, value, with, Node(node))
}

// NewNodeUnannotated is NewNodeUnlabelled for an annotation.
func NewNodeUnannotated(node, key string, with ...Detail) Event {
	return newEvent(NodeUnannotated, key, "", with, Node(node))
}

// Setting is a taint, label or annotation of a node. The Value of a taint is its effect.
type Setting struct{ Key, Value string }

// Setting is what was set on the node, or removed from it; none of a cordon.
func (e Event) Setting() Setting {
	kinds := []Kind{NodePrepared, NodeTainted, NodeUntainted, NodeLabelled, NodeUnlabelled, NodeAnnotated, NodeUnannotated}
	return Setting{e.keyOf(kinds...), e.reasonOf(kinds...)}
}

// NewNodeReady reports that a node became Ready.
func NewNodeReady(node string, with ...Detail) Event {
	return newEvent(NodeReady, "", "True", with, Node(node))
}

// NewNodeNotReady reports that the condition Ready of a node became False or Unknown.
func NewNodeNotReady(node, status string, with ...Detail) Event {
	return newEvent(NodeNotReady, "", status, with, Node(node))
}

// ReadyStatus is the status of the condition Ready of a NodeReady or NodeNotReady.
func (e Event) ReadyStatus() string { return e.reasonOf(NodeReady, NodeNotReady) }

// NewNodeDeleted reports that a Node object is gone.
func NewNodeDeleted(node string, with ...Detail) Event {
	return newEvent(NodeDeleted, "", "", with, Node(node))
}

// NewInstanceLaunched reports an instance that was launched. Owner: NodePool/… that it was launched for.
func NewInstanceLaunched(instance, instanceType, zone string, with ...Detail) Event {
	return newEvent(InstanceLaunched, instanceType, zone, with, Instance(instance))
}

// InstanceType is the type of the instance of an InstanceLaunched.
func (e Event) InstanceType() string { return e.keyOf(InstanceLaunched) }

// Zone is the zone of the instance of an InstanceLaunched.
func (e Event) Zone() string { return e.reasonOf(InstanceLaunched) }

// NewInstanceJoined reports that the kubelet of an instance registered. Numbers: took (s, from when the
// launch was seen).
func NewInstanceJoined(instance, node string, with ...Detail) Event {
	return newEvent(InstanceJoined, "", "", with, Instance(instance), Node(node))
}

// NewInstanceFailed reports why an instance did not become a node.
func NewInstanceFailed(instance, node, why string, with ...Detail) Event {
	return newEvent(InstanceFailed, "", "", with, Instance(instance), Node(node), Note(why))
}

// NewInstanceEnded reports that an instance was terminated, and its container killed.
func NewInstanceEnded(instance, node string, with ...Detail) Event {
	return newEvent(InstanceEnded, "", "", with, Instance(instance), Node(node))
}
