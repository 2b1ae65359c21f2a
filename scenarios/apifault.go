package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// APIFault makes the Kubernetes API server fail for the handler, and for nobody else. It
// begins with its step. It ends when its time is over or when it has affected its last call,
// whichever comes first, and at the latest when the drill ends.
type APIFault struct {
	// Name identifies the fault in later steps and in checks.
	Name string `yaml:"name"`
	// Type is what goes wrong; docs/faults.md describes what a client sees.
	Type history.APIFaultType `yaml:"type"`
	// Verbs are the verbs of RBAC that are affected. Left out, all of them are. The type
	// watch-ended always affects watches.
	Verbs []string `yaml:"verbs,omitempty"`
	// Resources are what the affected calls are about, as in kubectl: nodes, pods/eviction,
	// leases.coordination.k8s.io. Left out, all of them are.
	Resources []string `yaml:"resources,omitempty"`
	// Count is the number of calls that are affected. Required without for.
	Count int `yaml:"count,omitempty"`
	// For is how long the fault lasts. Required without count.
	For strict.Duration `yaml:"for,omitempty"`

	// By is the delay of each answer, with type delay.
	By strict.Duration `yaml:"by,omitempty"`
	// Status is the HTTP status, with type error: 500 or 503.
	Status int `yaml:"status,omitempty"`
	// RetryAfter is the Retry-After of the answer in whole seconds, with type throttle. Left
	// out, the answer has none.
	RetryAfter strict.Duration `yaml:"retryAfter,omitempty"`
	// ThenReset resets the calls that wait when the fault ends, with type black-hole. Left
	// out, they are never answered.
	ThenReset bool `yaml:"thenReset,omitempty"`
}

// APIVerbs lists the verbs that an APIFault can be limited to.
func APIVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
}

// resourceName is a resource as in kubectl: its plural, its group unless that is the core
// group, and a subresource.
var resourceName = regexp.MustCompile(`^[a-z]+(\.[a-z0-9.-]+)?(/[a-z]+)?$`)

// String is the fault in words.
func (f APIFault) String() string {
	text := fmt.Sprintf("API fault %s: %s", f.Name, f.Type)
	text += detail("by", f.By) + detail("to retry after", f.RetryAfter) + detail("for", f.For)
	if f.Status != 0 {
		text += fmt.Sprintf(" with status %d", f.Status)
	}
	if f.Count > 0 {
		text += fmt.Sprintf(", %d calls", f.Count)
	}
	if len(f.Verbs) > 0 {
		text += " to " + strings.Join(f.Verbs, ", ")
	}
	if len(f.Resources) > 0 {
		text += " " + strings.Join(f.Resources, ", ")
	}
	if f.ThenReset {
		text += ", then reset"
	}
	return text
}

func (f APIFault) is(t history.FaultType) bool { return f.Type == history.APIFaultType(t) }

func (f APIFault) validate(where string, in *scope, p *problems) {
	in.faults.define(where, f.Name, p)
	in.once(where, f.Name, in.disturbances, p)
	in.apiFaults = append(in.apiFaults, f)
	if !in.handler {
		p.add(where, "needs a handler: it affects nobody else's calls")
	}
	oneOf(p, where+".type", f.Type, history.APIFaultTypes())
	for _, verb := range f.Verbs {
		oneOf(p, where+".verbs", verb, APIVerbs())
	}
	if f.is(history.WatchEnded) && slices.ContainsFunc(f.Verbs, func(v string) bool { return v != "watch" }) {
		p.add(where+".verbs", "are not allowed with type %s, which always affects watches", f.Type)
	}
	for _, name := range f.Resources {
		if !resourceName.MatchString(name) {
			p.add(where+".resources", "%q is not a resource as in kubectl, such as nodes, pods/eviction or leases.coordination.k8s.io", name)
		}
	}
	p.faultEnds(where, f.Count, f.For)
	p.onlyWith(where+".by", f.By > 0, f.is(history.Delay), "type delay")
	p.onlyWith(where+".status", f.Status != 0, f.is(history.ServerError), "type error")
	p.serverError(where+".status", f.Status)
	if f.RetryAfter > 0 && !f.is(history.Throttle) {
		p.add(where+".retryAfter", "is only allowed with type throttle")
	}
	if f.RetryAfter.D()%time.Second != 0 {
		p.add(where+".retryAfter", "%s is not a whole number of seconds", f.RetryAfter.D())
	}
	if f.ThenReset && !f.is(history.BlackHole) {
		p.add(where+".thenReset", "is only allowed with type black-hole")
	}
}

func (f APIFault) effect() effect { return effect{shared: true, begins: f.Name, lasts: f.For.D()} }

// apiFault checks the field fault of a check: a fault of the API server of one of the types.
func (in *scope) apiFault(where, name string, p *problems, types ...history.FaultType) {
	var allowed []string
	for _, f := range in.apiFaults {
		if slices.ContainsFunc(types, f.is) {
			allowed = append(allowed, f.Name)
		}
	}
	oneOf(p, where+".fault", name, allowed)
}
