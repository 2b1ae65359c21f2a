package scenarios

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Resource is a part of the cluster, or a property of it, that a drill needs.
type Resource string

// The resources.
const (
	SpotNodes      Resource = "spot-nodes"         // fixed workers of capacity spot, or virtual nodes in place of them
	OnDemandWorker Resource = "on-demand-worker"   // where the handler and the recording proxy run
	AllNodes       Resource = "all-nodes"          // how many nodes there are, and the add-ons on them
	Recovery       Resource = "recovery"           // the time in which nodes are put back when a drill is over
	HandlerProcess Resource = "handler"            // its pods and its settings
	HandlerQueue   Resource = "queue"              // what the queue answers, and how fast
	APIProxy       Resource = "api-proxy"          // what the API server answers the handler, and how many calls there are
	Metadata       Resource = "instance-metadata"  // what the metadata services answer
	ClusterDNS     Resource = "coredns"            // the pods and the settings of CoreDNS
	Launches       Resource = "launched-instances" // what EC2 launches for the cluster
	Quiet          Resource = "quiet-machine"      // no work of others: DNS or an application is measured
)

// resourceWords are the resources in words, in the order in which claims are listed.
var resourceWords = []struct {
	Resource
	words string
}{
	{SpotNodes, "spot node"},
	{OnDemandWorker, "the on-demand worker"},
	{AllNodes, "the size and the add-ons of the cluster"},
	{Recovery, "the recovery of the nodes"},
	{HandlerProcess, "the handler"},
	{HandlerQueue, "the queue"},
	{APIProxy, "the API server's answers to the handler"},
	{Metadata, "the instance metadata"},
	{ClusterDNS, "CoreDNS"},
	{Launches, "the launched instances"},
	{Quiet, "the machine"},
}

// Resources lists every resource.
func Resources() []Resource {
	out := make([]Resource, len(resourceWords))
	for i, n := range resourceWords {
		out[i] = n.Resource
	}
	return out
}

// String is the resource in words.
func (r Resource) String() string { return resourceWords[slices.Index(Resources(), r)].words }

// Mode is whether other drills may use at the same time what a drill needs.
type Mode string

// The modes.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
)

// Claim is that a drill needs something for itself, or together with others.
type Claim struct {
	Resource Resource `json:"resource"`
	Mode     Mode     `json:"mode"`
	// Nodes is how many, for SpotNodes.
	Nodes int `json:"nodes,omitempty"`
	// Real is why SpotNodes must be real ones; empty if virtual nodes are enough.
	Real string `json:"realBecause,omitempty"`
	// As is what drills that share it must agree on, such as the settings of CoreDNS.
	As string `json:"as,omitempty"`
	// Because is what in the scenario the claim follows from.
	Because string `json:"because,omitempty"`
}

// String is the claim in words.
func (c Claim) String() string {
	text := c.Resource.String()
	if c.Resource == SpotNodes {
		text = history.Count(c.Nodes, text)
	}
	if c.Mode == Exclusive {
		text += " for itself"
	} else {
		text += ", shared"
		if c.As != "" {
			text += " with drills of the same settings (" + c.As + ")"
		}
	}
	if c.Because != "" {
		text += ": " + c.Because
	}
	switch {
	case c.Resource == SpotNodes && c.Real != "":
		text += "; real: " + c.Real
	case c.Resource == SpotNodes:
		text += "; virtual is enough"
	}
	return text
}

// Claims are all that a drill needs: for each resource at most one claim in each mode.
type Claims []Claim

// Of returns the claim on a resource in a mode.
func (c Claims) Of(n Resource, m Mode) (Claim, bool) {
	i := slices.IndexFunc(c, func(c Claim) bool { return c.Resource == n && c.Mode == m })
	if i < 0 {
		return Claim{}, false
	}
	return c[i], true
}

// With returns the claims with what drills must agree on that share a resource.
func (c Claims) With(n Resource, as string) Claims {
	c = slices.Clone(c)
	for i := range c {
		if c[i].Resource == n && c[i].Mode == Shared {
			c[i].As = as
		}
	}
	return c
}

// Nodes are how many nodes drills can use at the same time.
type Nodes struct {
	Spot    int // the cluster's fixed workers of capacity spot
	Virtual int // virtual nodes in place of them
}

// FixedNodes are those that every cluster has.
func FixedNodes() Nodes { return Nodes{Spot: spotWorkers} }

// Conflict is why drills with these claims cannot be played at the same time on so many nodes, in words; "" if
// they can. Their order does not matter. A single one cannot be played if there are too few nodes for it.
func (n Nodes) Conflict(all ...Claims) string {
	for _, of := range Resources() {
		if of == SpotNodes {
			if wanted := n.lacking(all); wanted > 0 {
				return fmt.Sprintf("they need %s, and there are %d", history.Count(wanted, SpotNodes.String()), n.Spot)
			}
			continue
		}
		var alone, shared []Claim
		for _, c := range all {
			if claim, ok := c.Of(of, Exclusive); ok {
				alone = append(alone, claim)
			} else if claim, ok := c.Of(of, Shared); ok {
				shared = append(shared, claim)
			}
		}
		if len(alone) > 0 && len(alone)+len(shared) > 1 {
			return fmt.Sprintf("one needs %s for itself (%s), and another uses it", of, alone[0].Because)
		}
		slices.SortFunc(shared, func(a, b Claim) int { return cmp.Compare(a.As, b.As) })
		if len(shared) > 1 && shared[0].As != shared[len(shared)-1].As {
			return fmt.Sprintf("they need %s with other settings (%q and %q)", of, shared[0].As, shared[len(shared)-1].As)
		}
	}
	return ""
}

// nodesNeeded are the nodes of one kind that drills need at the same time: what each has for itself, and as
// many more as the one that shares most.
type nodesNeeded struct{ alone, shared int }

func (n nodesNeeded) and(c Claims) nodesNeeded {
	alone, _ := c.Of(SpotNodes, Exclusive)
	shared, _ := c.Of(SpotNodes, Shared)
	return nodesNeeded{n.alone + alone.Nodes, max(n.shared, shared.Nodes)}
}

func (n nodesNeeded) total() int { return n.alone + n.shared }

// lacking is how many spot nodes the drills need, if that is more than there are; else 0. Those that virtual
// nodes are enough for get these, as far as they go, the largest first.
func (n Nodes) lacking(all []Claims) int {
	var spot, virtual nodesNeeded
	var either []Claims
	for _, c := range all {
		if slices.ContainsFunc(c, func(c Claim) bool { return c.Real != "" }) {
			spot = spot.and(c)
		} else {
			either = append(either, c)
		}
	}
	size := func(c Claims) int { return nodesNeeded{}.and(c).total() }
	slices.SortStableFunc(either, func(a, b Claims) int { return size(b) - size(a) })
	for _, c := range either {
		if with := virtual.and(c); with.total() <= n.Virtual {
			virtual = with
		} else {
			spot = spot.and(c)
		}
	}
	if spot.total() <= n.Spot {
		return 0
	}
	return spot.total()
}

// ofLane lists what each lane has of its own.
func ofLane() []Resource { return []Resource{SpotNodes, HandlerProcess, HandlerQueue, APIProxy} }

// NotInLane is why a drill with these claims cannot be played in a lane, in words; "" if it can. The spot nodes of a lane are
// virtual, and what is not its own other lanes use at the same time.
func (c Claims) NotInLane() string {
	for _, claim := range c {
		switch {
		case claim.Resource == SpotNodes && claim.Real != "":
			return "it needs real nodes: " + claim.Real
		case claim.Mode == Exclusive && !slices.Contains(ofLane(), claim.Resource):
			return fmt.Sprintf("it needs %s for itself: %s", claim.Resource, claim.Because)
		}
	}
	return ""
}

// Claims are what the scenario's drill needs. They follow from its steps, checks, nodes, workload and settings.
func (s Scenario) Claims() Claims {
	alone := map[Resource]string{} // why it is needed for itself
	claim := func(of Resource, because string) {
		if alone[of] == "" {
			alone[of] = because
		}
	}
	for _, step := range s.Steps {
		for _, of := range step.effect().alone {
			claim(of, step.String())
		}
	}
	for _, name := range s.Targets() {
		if pick := s.Nodes[name]; s.fixed(pick) && pick.Capacity == onDemand {
			claim(OnDemandWorker, "the drill acts on "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		if s.Nodes[name].Runs != "" {
			claim(ClusterDNS, name+" runs CoreDNS")
		}
	}
	if s.Workload.Spill {
		claim(OnDemandWorker, "pods of the workload may move there")
	}
	if s.Workload.SecurityGroups {
		claim(AllNodes, "the add-on "+VPCCNIAddOn+" is installed")
	}
	if n := s.fleetNodes(); n > 0 {
		claim(AllNodes, history.Count(n, "virtual node")+" join the cluster")
		claim(Quiet, "how many nodes a handler drains at a time depends on the machine")
	}
	if n := s.Launches(); n > 0 {
		claim(Launches, history.Count(n, "node")+" at most are launched")
	}
	switch {
	case s.Handler == HandlerNone:
		claim(HandlerProcess, "no handler may run")
	case s.OtherHandler != nil:
		claim(HandlerProcess, "a second handler runs")
	}
	if slices.ContainsFunc(s.needs(), func(n Needs) bool { return n.APICalls }) {
		claim(APIProxy, "the handler's calls are counted")
	}
	if slices.ContainsFunc(s.needs(), func(n Needs) bool { return n.Memory }) {
		claim(Quiet, "the handler's memory is measured")
	}
	if s.Probe != nil {
		claim(Quiet, "queries are measured")
	}
	out := s.nodeClaims()
	for _, of := range Resources() {
		if because := alone[of]; because != "" {
			out = append(out, Claim{Resource: of, Mode: Exclusive, Because: because})
		} else if of != SpotNodes {
			out = append(out, Claim{Resource: of, Mode: Shared, As: s.sharesAs(of)})
		}
	}
	return out
}

// sharesAs is what drills must agree on that share a resource with this one.
func (s Scenario) sharesAs(of Resource) string {
	switch of {
	case ClusterDNS:
		as := s.CoreDNS.String()
		if s.CoreDNS.Corefile != "" {
			as += fmt.Sprintf(", of digest %.8x", sha256.Sum256([]byte(s.CoreDNS.Corefile)))
		}
		return as
	case HandlerProcess:
		return strings.Trim(s.Feature+" "+s.Setting, " ")
	}
	return ""
}

// nodeClaims are the claims on spot nodes: those that the drill acts on are its own. Those that it only looks at,
// and one where pods go that leave a node, may be the same for other drills.
func (s Scenario) nodeClaims() Claims {
	targets := s.Targets()
	var own, seen []string
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		switch pick := s.Nodes[name]; {
		case !s.fixed(pick) || pick.Capacity != string(coredns.OnSpot):
		case slices.Contains(targets, name):
			own = append(own, name)
		default:
			seen = append(seen, name)
		}
	}
	var out Claims
	if len(own) > 0 {
		out = append(out, Claim{Resource: SpotNodes, Mode: Exclusive, Nodes: len(own), Real: s.needsReal(), Because: "the drill acts on " + strings.Join(own, ", ")})
	}
	others, because := len(seen), "it looks at "+strings.Join(seen, ", ")
	if others == 0 && s.movesPods() && len(own) < spotWorkers {
		others, because = 1, "pods of the workload run there, or move there"
	}
	if others > 0 {
		out = append(out, Claim{Resource: SpotNodes, Mode: Shared, Nodes: others, Real: s.needsReal(), Because: because})
	}
	return out
}

// movesPods reports whether pods of the drill run on spot nodes.
func (s Scenario) movesPods() bool {
	return s.CoreDNS.Placement == coredns.OnSpot || s.Workload.Replicas > 0 && !s.Workload.Launched && !s.Workload.Fleet || len(s.Workload.Pods) > 0
}

// podsOfVirtualNodes lists the kinds of pods that are judged by their objects alone. The others must run: how
// their containers start, fail or end is part of the drill, and kwok only plays that.
func podsOfVirtualNodes() []string {
	return []string{"critical", "bare", "empty-dir", "stateful-set", "tolerating", "finalizer"}
}

// needsReal is why the drill's spot nodes must be real: pods have to run on them, or a kubelet's behaviour is
// judged. It is empty if virtual nodes are enough.
func (s Scenario) needsReal() string {
	switch {
	case s.RealNodes:
		return "the scenario has realNodes"
	case s.Probe != nil:
		return "queries are measured"
	case s.CoreDNS.Placement == coredns.OnSpot:
		return "CoreDNS runs on spot nodes"
	case s.Workload.Serves != nil, s.Workload.SecurityGroups:
		return "pods of the workload must run"
	case s.OtherHandler != nil:
		return "a second handler may run on each node"
	}
	for _, pods := range s.Workload.Pods {
		if !slices.Contains(podsOfVirtualNodes(), pods.Kind) {
			return "pods " + pods.Kind + " must run"
		}
	}
	for _, step := range s.Steps {
		if step.effect().real {
			return step.String()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		if s.Nodes[name].Prepared.shutdown() != (Shutdown{}) {
			return "the kubelet of " + name + " delays its shutdown"
		}
	}
	return ""
}

// validateClaims reports what no cluster has.
func (s Scenario) validateClaims(p *problems) {
	wanted := map[string]int{} // by capacity
	for _, pick := range s.Nodes {
		if s.fixed(pick) {
			wanted[pick.Capacity]++
		}
	}
	for capacity, there := range map[string]int{string(coredns.OnSpot): spotWorkers, onDemand: 1} {
		if n := wanted[capacity]; n > there {
			p.add("nodes", "%d have capacity %s, and the cluster has %s; more can be launched for a drill: launched", n, capacity, history.Count(there, "such worker"))
		}
	}
	if s.RealNodes && wanted[string(coredns.OnSpot)] == 0 {
		p.add("realNodes", "is only allowed with a node of capacity %s that is not launched", coredns.OnSpot)
	}
}

// fixed reports whether the node is one of the workers that every cluster has.
func (s Scenario) fixed(pick Pick) bool {
	return pick.Launched == nil && (pick.Runs == "" || s.CoreDNS.Placement != coredns.Launched)
}

// Targets returns the names of the nodes that the scenario acts on, sorted: they are
// prepared, steps act on them, or the workload puts pods on them.
func (s Scenario) Targets() []string {
	targets := map[string]bool{}
	for _, pods := range s.Workload.Pods {
		targets[pods.Node] = true
	}
	for _, e := range s.effects() {
		for _, name := range e.nodes {
			targets[name] = true
		}
	}
	for _, name := range s.prepared() {
		targets[name] = true
	}
	delete(targets, "")
	return slices.Sorted(maps.Keys(targets))
}
