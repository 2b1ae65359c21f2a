// Package scenarios holds the catalogue of drills: the types of a scenario, the strict
// loader, and the scenarios themselves as YAML files.
package scenarios

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// APIVersion and Kind are the header of every scenario file.
const (
	APIVersion = "spotdrill.dev/v1alpha1"
	Kind       = strict.Scenario
)

// Set is a selection of scenarios, and their deadlines.
type Set string

// The sets. Fast has short deadlines and the scenarios that find most defects. Full has
// every scenario but those of Soak, with the two minutes that EC2 gives. Soak has those that
// last half an hour, with Full's deadlines.
const (
	Fast Set = "fast"
	Full Set = "full"
	Soak Set = "soak"
	// Handler has those of Full that leave the machine to others: no query is measured, no memory, and not how many nodes
	// are drained at a time. It follows from what a scenario has, so that none names it.
	Handler Set = "handler"
)

// Sets lists every set that a scenario can name.
func Sets() []Set { return []Set{Fast, Full, Soak} }

// SetsToPlay lists every set that can be played.
func SetsToPlay() []Set { return append(Sets(), Handler) }

// Scenario is one drill: the state of the cluster, the steps, and the checks that judge
// what was recorded.
type Scenario struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is the file's name without .yaml. Reports use it.
	Name string `yaml:"name"`
	// Title is the rule in one sentence.
	Title string `yaml:"title"`
	// Description explains why the rule exists.
	Description string `yaml:"description"`
	// Source is the URL of the page that the rule comes from.
	Source string `yaml:"source"`
	// Profile is the group that the scenario belongs to.
	Profile string `yaml:"profile"`
	// Sets are the sets that the scenario belongs to.
	Sets []Set `yaml:"sets"`
	// Feature is the feature that a handler must claim for the scenario to apply to it.
	// The handler gets the settings that its description has for this feature. Left out,
	// the scenario applies to every handler, as do all scenarios of the core profiles
	// (SPOT, PDB, QUEUE-HYGIENE, RESILIENCE, API-SERVER).
	Feature string `yaml:"feature,omitempty"`
	// Setting is the name under which a handler's description must have settings for the scenario
	// to apply to it. The handler gets them for the drill.
	Setting string `yaml:"setting,omitempty"`
	// Counterpart is a scenario that shows how the outage of this one is avoided. If a run has
	// both, the report sets them side by side.
	Counterpart string `yaml:"counterpart,omitempty"`
	// Handler is the handler in the drill. With none, the drill shows what happens without
	// a handler.
	Handler string `yaml:"handler,omitempty"`
	// OtherHandler is another handler that runs together with the one under test. Left out, there is
	// none.
	OtherHandler *OtherHandler `yaml:"secondHandler,omitempty"`

	// Observe marks a drill of a cluster that is not spotdrill's own. It has no steps:
	// only what it permits is done there.
	Observe *Observe `yaml:"observe,omitempty"`

	// CoreDNS is the configuration of CoreDNS during the drill, as far as it differs from the
	// defaults. It is restored afterwards.
	CoreDNS coredns.Settings `yaml:"coredns,omitempty"`
	// Workload is what else runs on the spot nodes.
	Workload Workload `yaml:"workload,omitempty"`
	// Nodes selects the nodes that steps and checks refer to, by name.
	Nodes map[string]Pick `yaml:"nodes,omitempty"`
	// Fleet are virtual nodes that join the cluster for the drill.
	Fleet *Fleet `yaml:"fleet,omitempty"`
	// RealNodes requires real nodes, even if nothing else in the scenario shows that pods must run on them or
	// that a kubelet is judged; spotdrill explain shows whether virtual nodes are enough.
	RealNodes bool `yaml:"realNodes,omitempty"`
	// Deadline is the time from a notice to the loss of its instance.
	Deadline Deadline `yaml:"deadline,omitempty"`
	// Probe turns the DNS prober on.
	Probe *Probe `yaml:"probe,omitempty"`

	// Steps are what happens, one after the other.
	Steps []Step `yaml:"steps"`
	// Settle is how long recording continues after the last step, at least. It also
	// continues until every check can be decided.
	Settle strict.Duration `yaml:"settle"`
	// Checks are the requirements on what was recorded.
	Checks []Check `yaml:"checks"`

	// File is where the scenario was read from, and Text its content.
	File string `yaml:"-"`
	Text []byte `yaml:"-"`
}

// Arranged is what the drill finds when it begins: CoreDNS with its defaults and, as the scenario's
// file has them, what differs from those, the workload and the deadline. It is empty if the scenario was not
// read from a file, or is one of another cluster.
func (s Scenario) Arranged() string {
	var out strings.Builder
	if s.Observe != nil || len(s.Text) == 0 {
		return ""
	}
	fmt.Fprintf(&out, "  # CoreDNS: %s\n", s.CoreDNS)
	var doc yaml.Node
	if err := yaml.Unmarshal(s.Text, &doc); err != nil || len(doc.Content) == 0 {
		return ""
	}
	arranged := yaml.Node{Kind: yaml.MappingNode}
	for pair := range slices.Chunk(doc.Content[0].Content, 2) {
		if slices.Contains([]string{"coredns", "workload", "deadline"}, pair[0].Value) {
			arranged.Content = append(arranged.Content, pair...)
		}
	}
	if len(arranged.Content) == 0 {
		return out.String()
	}
	withoutComments(&arranged)
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := enc.Encode(&arranged); err != nil {
		return ""
	}
	for line := range strings.Lines(text.String()) {
		out.WriteString("  " + line)
	}
	return out.String()
}

func withoutComments(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	for _, part := range node.Content {
		withoutComments(part)
	}
}

// Digest identifies the scenario's text, comments included. It is empty if the scenario
// was not read from a file.
func (s Scenario) Digest() string {
	if len(s.Text) == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(s.Text))
}

// The values of Scenario.Handler. HandlerNone removes the handler for the drill.
const (
	HandlerUnderTest = "under-test"
	HandlerNone      = "none"
)

// Profiles lists the groups of scenarios in the order in which they are drilled: those
// with the same cluster settings follow each other, and those that measure DNS come
// when a new cluster has settled.
func Profiles() []string {
	return []string{"STATE-CHANGE", "SCHEDULED-CHANGE", "REBALANCE", "CAPACITY-RESERVATION", "LIFECYCLE", "STATUS-CHECK", "EVENTS", "QUEUE-HYGIENE", "RESILIENCE", "API-SERVER", "PDB", "SPOT", "KARPENTER-ORDER", "STORM", "DNS", "UPGRADE", "APPLICATION", "LAUNCH", "TWO-HANDLERS", "FLAGS", "INCIDENT"}
}

// CoreProfiles lists the groups of scenarios that every handler is judged by. Those of
// the other groups apply if the handler claims their feature.
func CoreProfiles() []string {
	return []string{"QUEUE-HYGIENE", "RESILIENCE", "API-SERVER", "PDB", "SPOT"}
}

// Core reports whether the scenario applies to every handler, whatever it claims.
func (s Scenario) Core() bool { return slices.Contains(CoreProfiles(), s.Profile) }

// AboutHandlers reports whether a handler acts in the drill, or the drill shows in the fast set
// what one prevents. Others end the same with every handler.
func (s Scenario) AboutHandlers() bool {
	return s.Handler != HandlerNone || slices.Contains(s.Sets, Fast)
}

// capacities lists what EC2 launches.
func capacities() []string { return []string{string(coredns.OnSpot), onDemand} }

// Pick selects a node of the cluster.
type Pick struct {
	// Capacity is the capacity type of the node.
	Capacity string `yaml:"capacity"`
	// Runs requires a CoreDNS pod on the node. Left out, nodes without one are
	// preferred.
	Runs string `yaml:"runs,omitempty"`
	// Prepared is what an operator did to the node before the drill.
	Prepared *Prepared `yaml:"prepared,omitempty"`
	// Launched launches the node for the drill. Left out, it is one of the cluster's fixed
	// workers.
	Launched *Launched `yaml:"launched,omitempty"`
}

// Deadline is the time from a notice to the loss of its instance, for each set.
type Deadline struct {
	// Fast is the deadline in the fast set.
	Fast strict.Duration `yaml:"fast"`
	// Full is the deadline in the other sets: the two minutes that EC2 gives, or less where nothing
	// is measured in the rest of them.
	Full strict.Duration `yaml:"full"`
}

// For returns the deadline in a set.
func (d Deadline) For(set Set) time.Duration {
	if set == Fast {
		return d.Fast.D()
	}
	return d.Full.D()
}

// OtherHandler is another handler that runs in the drill next to the one under test.
type OtherHandler struct {
	// Name is a handler that comes with spotdrill. A run with two handlers uses its second one
	// instead.
	Name string `yaml:"name"`
	// Queue is which queue it reads: shared, or own, with rules of its own. It does not
	// matter to a handler that reads the metadata of its instance.
	Queue Queue `yaml:"queue"`
	// Feature is the feature whose settings it gets.
	Feature string `yaml:"feature,omitempty"`
}

// Queue is which queue a second handler reads.
type Queue string

// The queues: that of the handler under test, or another one.
const (
	SharedQueue Queue = "shared"
	OwnQueue    Queue = "own"
)

func (s Scenario) validateOther(p *problems) {
	second := s.OtherHandler
	if second == nil {
		return
	}
	if second.Name == "" {
		p.add("secondHandler.name", "must not be empty")
	}
	oneOf(p, "secondHandler.queue", second.Queue, []Queue{SharedQueue, OwnQueue})
	oneOfIfSet(p, "secondHandler.feature", second.Feature, feature.Names())
	if s.Handler == HandlerNone {
		p.add("secondHandler", "requires a handler under test")
	}
}
