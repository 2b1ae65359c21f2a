package history

// What was done to CoreDNS, and to the add-ons of the cluster.
const (
	DNSDisrupted   Kind = "dns.disrupted"
	CorefileRead   Kind = "corefile.read"
	AddOnUpgrading Kind = "addon.upgrading"
	AddOnUpgraded  Kind = "addon.upgraded"
	AddOnRefused   Kind = "addon.refused"
	AddOnSet       Kind = "addon.set"
)

// NewDNSDisrupted reports what the run did to CoreDNS. Node: whose pods, empty for all; Numbers: replicas.
func NewDNSDisrupted(d Disruption, with ...Detail) Event {
	return newEvent(DNSDisrupted, "", string(d), with)
}

// Disruption is what a DNSDisrupted did.
func (e Event) Disruption() Disruption { return Disruption(e.reasonOf(DNSDisrupted)) }

// NewCorefileRead reports that a pod of CoreDNS has read a Corefile that was changed while it ran, whether
// it took it or refused it. Numbers: took (s, from the change on).
func NewCorefileRead(pod string, with ...Detail) Event {
	return newEvent(CorefileRead, "", "", with, Pod(pod))
}

// NewAddOnUpgrading reports that the upgrade of an add-on begins.
func NewAddOnUpgrading(addOn string, mode ConflictMode, with ...Detail) Event {
	return newEvent(AddOnUpgrading, addOn, "", with, Action(string(mode)))
}

// NewAddOnUpgraded reports that the upgrade is over, and its pods are replaced. Numbers: took (s).
func NewAddOnUpgraded(addOn string, mode ConflictMode, with ...Detail) Event {
	return newEvent(AddOnUpgraded, addOn, "", with, Action(string(mode)))
}

// NewAddOnRefused reports that nothing was changed. Note: the fields that others own.
func NewAddOnRefused(addOn string, mode ConflictMode, with ...Detail) Event {
	return newEvent(AddOnRefused, addOn, "", with, Action(string(mode)))
}

// NewAddOnSet reports that the values of an add-on were set by hand again, and its pods are replaced.
// Numbers: took (s).
func NewAddOnSet(addOn string, with ...Detail) Event { return newEvent(AddOnSet, addOn, "", with) }

// AddOn is the add-on that the event is about.
func (e Event) AddOn() string {
	return e.keyOf(AddOnUpgrading, AddOnUpgraded, AddOnRefused, AddOnSet)
}
