package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Verb is what a do step does. A word means the same on every target.
type Verb string

// The verbs; docs/actions.md documents what each does to which target.
const (
	Configure Verb = "configure" // change its settings
	Create    Verb = "create"    // create an object
	CutOff    Verb = "cut-off"   // drop what it sends to the Kubernetes API, for a time
	Delete    Verb = "delete"    // delete its object, or its pods: SIGTERM
	Drain     Verb = "drain"     // kubectl drain
	Join      Verb = "join"      // register a node that was deleted
	Kill      Verb = "kill"      // SIGKILL; the kubelet starts the containers again
	Label     Verb = "label"     // set the labels that the handler's pods need
	Move      Verb = "move"      // a rolling update to a certain node
	Restart   Verb = "restart"   // a rolling restart of the Deployment
	Retire    Verb = "retire"    // one replica less; the one that drains goes
	Scale     Verb = "scale"     // another number of replicas, or of virtual nodes
	Start     Verb = "start"     // start what was stopped
	Stop      Verb = "stop"      // stop it, for a time or until the end
	Touch     Verb = "touch"     // change its object in a way that means nothing
	Uncordon  Verb = "uncordon"  // kubectl uncordon
	Unlabel   Verb = "unlabel"   // remove the labels that the handler's pods need
	Upgrade   Verb = "upgrade"   // the next version
)

// Target is what a do step acts on.
type Target string

// The targets.
const (
	OnHandler  Target = "handler"  // the handler under test
	OnNode     Target = "node"     // a node, by its Node object
	OnKubelet  Target = "kubelet"  // the kubelet of a node
	OnInstance Target = "instance" // the instance of a node
	OnCoreDNS  Target = "coredns"  // the pods and the configuration of CoreDNS
	OnWorkload Target = "workload" // what else runs
	OnBudget   Target = "budget"   // a PodDisruptionBudget of the workload
	OnAddOn    Target = "addon"    // an add-on of Amazon EKS
	OnCluster  Target = "cluster"  // the cluster's size
)

// Targets lists every target.
func Targets() []Target {
	return []Target{OnHandler, OnNode, OnKubelet, OnInstance, OnCoreDNS, OnWorkload, OnBudget, OnAddOn, OnCluster}
}

// Verbs lists every verb.
func Verbs() []Verb {
	var out []Verb
	for _, target := range Targets() {
		out = slices.AppendSeq(out, maps.Keys(target.actions()))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Do does something to a part of the cluster, as an operator, a controller or the cloud does. The
// drill continues when it is done. Which fields a step has depends on verb and target; docs/actions.md
// lists them.
type Do struct {
	// Verb is what is done.
	Verb Verb `yaml:"verb"`
	// Target is what it is done to.
	Target Target `yaml:"target"`
	// Name identifies the step in later steps and in checks.
	Name string `yaml:"name,omitempty"`
	// Node is the node that it is done to; of CoreDNS, the node whose pods are meant, and left out,
	// all of them; with move, the node where the handler is moved to.
	Node string `yaml:"node,omitempty"`
	// At is the notice that after counts from. Left out, it counts from the previous step.
	At string `yaml:"at,omitempty"`
	// After is how long to wait before it is done.
	After strict.Duration `yaml:"after,omitempty"`
	// For is how long the handler is cut off or stopped.
	For strict.Duration `yaml:"for,omitempty"`
	// Meanwhile lets the drill continue while the handler is cut off or stopped, or a node is
	// drained. It is over when the steps are, at the latest.
	Meanwhile bool `yaml:"meanwhile,omitempty"`

	// Replicas is what the handler is scaled to, 1 to 5, or CoreDNS, 1 to 10.
	Replicas int `yaml:"replicas,omitempty"`
	// Disrupts are the nodes that the handler removes without a notice once it is configured so;
	// left out, none.
	Disrupts []string `yaml:"disrupts,omitempty"`

	// Timeout is how long a drain tries to evict pods, as kubectl drain --timeout does; left out, it
	// is 2m.
	Timeout strict.Duration `yaml:"timeout,omitempty"`
	// Force deletes the pods that a drain could not evict in that time, as the forced update of a
	// managed node group does. No budget applies to that.
	Force bool `yaml:"force,omitempty"`
	// Untaint also removes the handler's taints from a node that is uncordoned.
	Untaint bool `yaml:"untaint,omitempty"`
	// WithoutProviderID lets the node join without a providerID, as before a cloud's controller has
	// seen it.
	WithoutProviderID bool `yaml:"withoutProviderID,omitempty"`

	// Lameduck is what the lameduck of CoreDNS is edited to, 0s to 60s, as by kubectl edit; of the
	// add-on coredns, a configuration value of the upgrade, its own being 5s.
	Lameduck *strict.Duration `yaml:"lameduck,omitempty"`
	// Corefile is what the Corefile of CoreDNS is made.
	Corefile Corefile `yaml:"corefile,omitempty"`
	// Placement is where the pods of CoreDNS may run from then on: nowhere.
	Placement string `yaml:"placement,omitempty"`

	// DaemonSet is the name of a DaemonSet that is created on the nodes that the handler launches, and
	// on all that it launches later. Its pods are Pending where they do not fit.
	DaemonSet string `yaml:"daemonSet,omitempty"`
	// Memory is what each of its pods requests, such as 1Gi.
	Memory string `yaml:"memory,omitempty"`

	// Pods is the group of pods whose budget changes.
	Pods string `yaml:"pods,omitempty"`
	// MinAvailable is the value that applies to the pods from then on.
	MinAvailable *int `yaml:"minAvailable,omitempty"`
	// Budget is the name of a second budget of the pods, which is deleted.
	Budget string `yaml:"budget,omitempty"`

	// AddOn is the name of the add-on; docs/addons.md describes each.
	AddOn string `yaml:"addOn,omitempty"`
	// Conflicts is what becomes of fields that others own.
	Conflicts history.ConflictMode `yaml:"conflicts,omitempty"`

	// Nodes is how many virtual nodes the cluster has in addition to its own; 0 removes all.
	Nodes *int `yaml:"nodes,omitempty"`
	// Cores is how many cores each has; left out, 4.
	Cores int `yaml:"cores,omitempty"`
}

// action is what a verb means on a target.
type action struct {
	// needs and allows are the fields that it has besides verb, target, at and after.
	needs, allows []string
	// text is the action in words, without its times.
	text func(Do) string
	// validate checks what is particular to it; nil for nothing.
	validate func(d Do, where string, in *scope, p *problems)
	// effect is what it means for the drill, besides its times.
	effect func(Do) effect
}

// actions returns what can be done to the target.
func (t Target) actions() map[Verb]action {
	actions, ok := map[Target]func() map[Verb]action{
		OnHandler:  handlerActions,
		OnNode:     nodeActions,
		OnKubelet:  kubeletActions,
		OnInstance: instanceActions,
		OnCoreDNS:  dnsActions,
		OnWorkload: workloadActions,
		OnBudget:   budgetActions,
		OnAddOn:    addOnActions,
		OnCluster:  clusterActions,
	}[t]
	if !ok {
		return nil
	}
	return actions()
}

// What is the action as a scenario names it.
func (d Do) What() string { return fmt.Sprintf("{verb: %s, target: %s}", d.Verb, d.Target) }

// String is the step in words.
func (d Do) String() string {
	does, ok := d.Target.actions()[d.Verb]
	if !ok {
		return d.What() + " is not known"
	}
	text := does.text(d)
	if d.Name != "" {
		text = d.Name + ": " + text
	}
	text += detail("for", d.For)
	if d.Meanwhile {
		text += ", and the drill continues meanwhile"
	}
	switch {
	case d.At != "":
		text += fmt.Sprintf(", %s after %s", d.After.D(), d.At)
	case d.After > 0:
		text += fmt.Sprintf(", after %s", d.After.D())
	}
	return text
}

func (d Do) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".target", d.Target, Targets())
	verbs := slices.Sorted(maps.Keys(d.Target.actions()))
	if len(verbs) == 0 {
		return
	}
	oneOf(p, where+".verb", d.Verb, verbs)
	does, ok := d.Target.actions()[d.Verb]
	if !ok {
		return
	}
	given := d.given()
	allowed := slices.Concat(does.needs, does.allows, []string{"at", "after"})
	for _, field := range given {
		if !slices.Contains(allowed, field) {
			p.add(where+"."+field, "is not allowed with %s", d.What())
		}
	}
	complete := true
	for _, field := range does.needs {
		if field != "name" && !slices.Contains(given, field) { // a name is required where it is defined
			p.add(where+"."+field, "is required with %s", d.What())
			complete = false
		}
	}
	if d.Node != "" {
		in.node(where, d.Node, p)
	}
	oneOfIfSet(p, where+".at", d.At, in.Notices())
	if does.validate != nil && complete {
		does.validate(d, where, in, p)
	}
}

// given returns the fields that are set, besides verb and target.
func (d Do) given() []string {
	var out []string
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name != "verb" && name != "target" && !v.Field(i).IsZero() {
			out = append(out, name)
		}
	}
	return out
}

func (d Do) effect() effect {
	e := onNode(d)
	if does, ok := d.Target.actions()[d.Verb]; ok {
		e = does.effect(d)
	}
	if d.At != "" {
		e.afterNotice += d.After.D()
	} else {
		e.takes += d.After.D()
	}
	return e
}

// Actions returns the steps that do one of these verbs to a target, or anything if none is given.
func (s Scenario) Actions(on Target, verbs ...Verb) []Do {
	return slices.DeleteFunc(stepsOf[Do](s), func(d Do) bool {
		return d.Target != on || len(verbs) > 0 && !slices.Contains(verbs, d.Verb)
	})
}

// alone is the effect of an action on its node, if it has one, because of which the drill needs something for itself.
func alone(of Resource) func(Do) effect {
	return func(d Do) effect { return effect{nodes: []string{d.Node}, alone: []Resource{of}} }
}

// onNode is the effect of an action on nothing but its node, or the workload there.
func onNode(d Do) effect { return effect{nodes: []string{d.Node}} }

// text returns the same words for every step of an action.
func text(words string) func(Do) string { return func(Do) string { return words } }
