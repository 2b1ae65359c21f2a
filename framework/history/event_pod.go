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
