package scenarios

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Observe marks a drill of a cluster that is not spotdrill's own. It has no steps:
// only what it permits is done there.
type Observe struct {
	// Permission is the change that the drill makes. Left out, it only observes.
	Permission Permission `yaml:"permission,omitempty"`
}

// Permission is what may be done to a cluster that is not spotdrill's own.
type Permission string

// The permissions. Nothing is ever reclaimed.
const (
	EvictCoreDNS Permission = "evict-coredns" // evict one CoreDNS pod
	DrainNode    Permission = "drain"         // cordon and drain one node
	SendNotice   Permission = "notice"        // send a notice about one instance, whose node the handler there drains
)

// Permissions lists the permissions.
func Permissions() []Permission { return []Permission{EvictCoreDNS, DrainNode, SendNotice} }

// happens is what is done, in words.
func (p Permission) happens() string {
	switch p {
	case EvictCoreDNS:
		return "one CoreDNS pod is evicted through the Eviction API"
	case DrainNode:
		return "one node is cordoned, and its pods are evicted"
	case SendNotice:
		return "a notice about the instance of one node is put into the queue, and the handler there drains the node"
	}
	return "nothing is changed: time passes, or a command of yours is run"
}

// Phases are what happens in an observation, in words.
func (o Observe) Phases() []string {
	phases := []string{"DNS must answer everything for some seconds before anything begins", o.Permission.happens(), "the record goes on until what began has ended, and for the settle time after that"}
	if o.Permission != "" {
		phases = append(phases, "what was changed is put back")
	}
	return phases
}

// ObservationName is the scenario that changes nothing.
const ObservationName = "observation"

// ObserveProfile is the group of what is observed. It is no group of the catalogue.
const ObserveProfile = "OBSERVE"

// The names that checks of an observation use for its node and its notice.
const (
	ObservedNode   = "node"
	ObservedNotice = "notice"
)

// Limits of an observation.
const (
	MaxObservers    = 100
	MaxObservedRate = 20_000 // queries/s of all probers together
)

//go:embed live
var live embed.FS

// Gates are the bounds that an observation must keep. Without any, it only measures.
type Gates struct {
	// MaxWindow is the longest that queries may be lost.
	MaxWindow *time.Duration
	// MaxLost is how many queries may be lost.
	MaxLost *int
	// SLO is the share of queries that must be answered, in percent.
	SLO float64
}

// Service is what is probed.
type Service string

// The Services: kube-dns, and that of the workload.
const (
	DNS         Service = "dns"
	Application Service = "application"
)

// Services lists what can be probed.
func Services() []Service { return []Service{DNS, Application} }

// Live returns the drills of clusters that are not spotdrill's own, in the order of
// Permissions.
func (l Loader) Live() ([]Scenario, error) {
	var out []Scenario
	entries, err := live.ReadDir("live")
	if err != nil {
		return nil, fmt.Errorf("load the drills of other clusters: %w", err)
	}
	for _, e := range entries {
		s, err := l.readLive(e.Name())
		if err != nil {
			return nil, err
		}
		if s.Observe.Permission != "" {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Scenario) int {
		return slices.Index(Permissions(), a.Observe.Permission) - slices.Index(Permissions(), b.Observe.Permission)
	})
	return out, nil
}

// IsLive reports whether there is such a scenario for clusters that are not spotdrill's own.
func IsLive(name string) bool {
	_, err := fs.Stat(live, "live/"+name+".yaml")
	return err == nil
}

// Observation returns the scenario of an observation that changes nothing.
func (l Loader) Observation() (Scenario, error) { return l.readLive(ObservationName + ".yaml") }

func (l Loader) readLive(file string) (Scenario, error) {
	data, err := live.ReadFile(path.Join("live", file))
	if err != nil {
		return Scenario{}, fmt.Errorf("load the drills of other clusters: %w", err)
	}
	s, err := l.Parse(file, data)
	if err == nil && s.Observe == nil {
		err = fmt.Errorf("%s: observe: is required here", file)
	}
	return s, err
}

// With returns a scenario with another load and more checks, as a file would have it.
func (l Loader) With(s Scenario, probe Probe, gates Gates) (Scenario, error) {
	s.Probe, s.Checks = &probe, slices.Clone(s.Checks)
	services := Services()[:1]
	if probe.Application != nil {
		services = Services()
	}
	var errs []error
	add := func(service Service, parameter string, value any) {
		check, err := raw("losses", map[string]any{"of": service, "mode": "all", parameter: value})
		s.Checks, errs = append(s.Checks, check), append(errs, err)
	}
	for _, service := range services {
		if gates.MaxWindow != nil {
			// A window of 0s cannot be required: one lost query has a window.
			add(service, "maxWindow", strict.Duration(max(*gates.MaxWindow, 1)))
		}
	}
	for _, service := range services {
		if gates.MaxLost != nil {
			add(service, "max", *gates.MaxLost)
		}
	}
	if gates.SLO > 0 {
		add(DNS, "answered", gates.SLO)
	}
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := enc.Encode(s); err != nil {
		return s, fmt.Errorf("write the scenario: %w", err)
	}
	return l.Parse(s.Name+".yaml", text.Bytes())
}

// validateObserve checks a scenario of another cluster, which has nothing that would change it.
func (s Scenario) validateObserve(p *problems) {
	oneOf(p, "profile", s.Profile, []string{ObserveProfile})
	oneOfIfSet(p, "observe.permission", s.Observe.Permission, Permissions())
	for field, given := range map[string]bool{
		"steps": len(s.Steps) > 0, "nodes": len(s.Nodes) > 0, "workload": len(s.Workload.Groups()) > 0,
		"coredns": !s.CoreDNS.Equal(coredns.Settings{}), "secondHandler": s.OtherHandler != nil, "feature": s.Feature != "",
	} {
		if given {
			p.add(field, "is not allowed with observe: the cluster is not spotdrill's own")
		}
	}
	if s.Probe == nil {
		p.add("probe", "is required with observe")
		return
	}
	oneOf(p, "probe.transport", s.Probe.Transport, Transports())
	switch rate := s.Probe.Fresh + s.Probe.Fixed; {
	case rate > MaxObservedRate:
		p.add("probe", "%d queries/s are more than %d", rate, MaxObservedRate)
	case s.Probe.Probers < 1 || s.Probe.Probers > MaxObservers:
		p.add("probe.probers", "%d is not within 1 to %d", s.Probe.Probers, MaxObservers)
	case s.Probe.Fresh < s.Probe.Probers || s.Probe.Fixed < s.Probe.Probers:
		p.add("probe", "%d fresh and %d fixed queries/s are less than 1 for each of %s", s.Probe.Fresh, s.Probe.Fixed, history.Count(s.Probe.Probers, "prober"))
	}
	if s.Probe.Application != nil {
		s.Probe.Application.validate(s.Probe.Probers, p)
	}
	s.Nodes = map[string]Pick{ObservedNode: {Capacity: string(coredns.OnSpot)}} // a notice can be about it
	in := s.scope()
	if s.Observe.Permission == SendNotice {
		in.Sent, in.Named[ObservedNotice] = names{ObservedNotice}, []string{ObservedNode}
	}
	if len(s.Checks) > 0 { // without a gate, an observation only measures
		s.validateChecks(in, p)
	}
}
