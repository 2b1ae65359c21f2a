package history

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

// NewPodPresent reports a pod that existed when recording started, as NewPodCreated. Phase is the pod's.
func NewPodPresent(pod, uid, app, phase string, with ...Detail) Event {
	return newEvent(PodPresent, app, phase, with, Pod(pod), UID(uid))
}

// NewPodCreated reports a new pod. App is its label app. Numbers: priority, grace (s, its own),
// tolerates_cordon (1, or left out); Note: keys of the NoSchedule taints that it tolerates, by comma, * for all.
func NewPodCreated(pod, uid, app string, with ...Detail) Event {
	return newEvent(PodCreated, app, "", with, Pod(pod), UID(uid))
}

// Group is the group of pods that an event is about: of a PodPresent or PodCreated the label app, of a
// BudgetSet whose budget it is.
func (e Event) Group() string { return e.keyOf(PodPresent, PodCreated, BudgetSet) }

// NewPodScheduled reports that a pod was bound to its Node.
func NewPodScheduled(pod, uid string, with ...Detail) Event {
	return newEvent(PodScheduled, "", "", with, Pod(pod), UID(uid))
}

// NewPodReady reports that a pod became Ready.
func NewPodReady(pod, uid string, with ...Detail) Event {
	return newEvent(PodReady, "", "", with, Pod(pod), UID(uid))
}

// NewPodNotReady reports that a pod is not Ready any more.
func NewPodNotReady(pod, uid string, with ...Detail) Event {
	return newEvent(PodNotReady, "", "", with, Pod(pod), UID(uid))
}

// NewPodEvicted reports the condition DisruptionTarget. Its reason is EvictionByEvictionAPI, for example.
func NewPodEvicted(pod, uid, reason string, with ...Detail) Event {
	return newEvent(PodEvicted, "", reason, with, Pod(pod), UID(uid))
}

// NewPodTerminating reports that a deletionTimestamp was set, or the grace period cut short. Numbers: grace (s).
func NewPodTerminating(pod, uid string, with ...Detail) Event {
	return newEvent(PodTerminating, "", "", with, Pod(pod), UID(uid))
}

// NewPodSignalled reports that a CoreDNS pod logged SIGTERM.
func NewPodSignalled(pod, uid string, with ...Detail) Event {
	return newEvent(PodSignalled, "", "", with, Pod(pod), UID(uid))
}

// NewPodLameduck reports that a CoreDNS pod logged that its lameduck begins. Numbers: seconds.
func NewPodLameduck(pod, uid string, with ...Detail) Event {
	return newEvent(PodLameduck, "", "", with, Pod(pod), UID(uid))
}

// NewPodExited reports that every container terminated. Numbers: exit_code, the highest, if not 0.
func NewPodExited(pod, uid string, with ...Detail) Event {
	return newEvent(PodExited, "", "", with, Pod(pod), UID(uid))
}

// NewPodFinished reports that the containers of a pod have ended for good. Phase is Succeeded or Failed.
func NewPodFinished(pod, uid, phase string, with ...Detail) Event {
	return newEvent(PodFinished, "", phase, with, Pod(pod), UID(uid))
}

// PodPhase is the phase of the pod of a PodPresent or PodFinished.
func (e Event) PodPhase() string { return e.reasonOf(PodPresent, PodFinished) }

// NewPodRestarted reports that a container was started again, and the reason why it had ended. Numbers:
// restarts, exit_code.
func NewPodRestarted(pod, uid, reason string, with ...Detail) Event {
	return newEvent(PodRestarted, "", reason, with, Pod(pod), UID(uid))
}

// NewPodDeleted reports that a pod is gone from the API.
func NewPodDeleted(pod, uid string, with ...Detail) Event {
	return newEvent(PodDeleted, "", "", with, Pod(pod), UID(uid))
}
