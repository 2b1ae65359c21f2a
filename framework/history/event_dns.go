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

// The constructors of these events.
var (
	// NewDNSDisrupted reports what the run did to CoreDNS. Node: whose pods, empty for all; Numbers: replicas.
	NewDNSDisrupted = event1(DNSDisrupted, typed[Disruption](why))
	// NewCorefileRead reports that a pod of CoreDNS has read a Corefile that was changed while it ran, whether
	// it took it or refused it. Numbers: took (s, from the change on).
	NewCorefileRead = event1(CorefileRead, Pod)
	// NewAddOnUpgrading reports that the upgrade of an add-on begins.
	NewAddOnUpgrading = event2(AddOnUpgrading, about, typed[ConflictMode](Action))
	// NewAddOnUpgraded reports that the upgrade is over, and its pods are replaced. Numbers: took (s).
	NewAddOnUpgraded = event2(AddOnUpgraded, about, typed[ConflictMode](Action))
	// NewAddOnRefused reports that nothing was changed. Note: the fields that others own.
	NewAddOnRefused = event2(AddOnRefused, about, typed[ConflictMode](Action))
	// NewAddOnSet reports that the values of an add-on were set by hand again, and its pods are replaced.
	// Numbers: took (s).
	NewAddOnSet = event1(AddOnSet, about)
)

// Disruption is what a DNSDisrupted did.
func (e Event) Disruption() Disruption { return Disruption(e.reasonOf(DNSDisrupted)) }

// AddOn is the add-on that the event is about.
func (e Event) AddOn() string {
	return e.keyOf(AddOnUpgrading, AddOnUpgraded, AddOnRefused, AddOnSet)
}
