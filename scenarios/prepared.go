package scenarios

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Prepared is the state in which an operator left a node before the drill. It is put on
// the node when the workload's pods run, before recording starts, and taken off when the
// drill is over. A providerID cannot be taken off, since the API server refuses any change of
// it; the operation rejoin-without-provider-id is there for that.
type Prepared struct {
	// Cordoned marks the node unschedulable, as kubectl cordon does.
	Cordoned bool `yaml:"cordoned,omitempty"`
	// Taints are taints of others, without values.
	Taints []Taint `yaml:"taints,omitempty"`
	// Labels are labels of others. Their keys are of the domain example.com or one of its
	// subdomains.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Annotations are annotations of others, with keys of the same domain.
	Annotations map[string]string `yaml:"annotations,omitempty"`
	// DoNotDisrupt annotates the node with karpenter.sh/do-not-disrupt: only a notice may
	// remove it. It is for nodes that a handler has launched, which end after the drill.
	DoNotDisrupt bool `yaml:"doNotDisrupt,omitempty"`
	// CapacityReservation labels the node as one whose instance is in this capacity reservation, as
	// Karpenter does: cr- and 17 hexadecimal digits.
	CapacityReservation string `yaml:"capacityReservation,omitempty"`
	// ShutdownGracePeriod is for how long the kubelet delays a shutdown of the node to end the pods
	// gracefully, in whole seconds: first those of the regular group, then those of system priority classes,
	// such as CoreDNS. With 0s it does not. Left out, it is the platform's; kubeadm's kubelet does not delay
	// one. It needs a step that shuts the node down.
	ShutdownGracePeriod *strict.Duration `yaml:"shutdownGracePeriod,omitempty"`
	// ShutdownGracePeriodCriticalPods is the part of it for pods of system priority classes, in whole
	// seconds; left out, 10s.
	ShutdownGracePeriodCriticalPods strict.Duration `yaml:"shutdownGracePeriodCriticalPods,omitempty"`
}

var reservationID = regexp.MustCompile(`^cr-[0-9a-f]{17}$`)

// The bounds of a shutdown's grace period, and the default of the part for critical pods.
const (
	minShutdown      = 15 * time.Second
	maxShutdown      = 5 * time.Minute
	shutdownCritical = 10 * time.Second
)

// Shutdown is how the kubelet of the node shuts it down; all of it is 0 if nothing is set.
func (s *Prepared) shutdown() Shutdown {
	if s == nil || s.ShutdownGracePeriod == nil || *s.ShutdownGracePeriod == 0 {
		return Shutdown{}
	}
	return Shutdown{*s.ShutdownGracePeriod, cmp.Or(s.ShutdownGracePeriodCriticalPods, strict.Duration(shutdownCritical))}
}

// validateShutdown checks the grace period of a shutdown, and its part for critical pods.
func validateShutdown(field string, grace time.Duration, criticalField string, critical time.Duration, p *problems) {
	if grace != 0 && (grace < minShutdown || grace > maxShutdown || grace%time.Second != 0) {
		p.add(field, "%s is not a whole number of seconds within %s to %s", grace, minShutdown, maxShutdown)
	}
	if critical != 0 && (critical < time.Second || critical > grace || critical%time.Second != 0) {
		p.add(criticalField, "%s is not a whole number of seconds within 1s to the grace period of the shutdown, %s", critical, grace)
	}
}

// Taint is a taint of a node.
type Taint struct {
	// Key is in the domain example.com or one of its subdomains.
	Key string `yaml:"key"`
	// Effect is NoSchedule or PreferNoSchedule; NoExecute would end the pods before the
	// drill.
	Effect string `yaml:"effect"`
}

// TaintEffects lists the effects that a prepared taint can have.
func TaintEffects() []string { return []string{"NoSchedule", "PreferNoSchedule"} }

// States are the parts of the state as events that describe what was prepared, without the node.
func (s *Prepared) States() []history.Event {
	if s == nil {
		return nil
	}
	var out []history.Event
	if s.Cordoned {
		out = append(out, history.NewNodePrepared(history.PreparedCordon, "", ""))
	}
	for _, t := range s.Taints {
		out = append(out, history.NewNodePrepared(history.PreparedTaint, t.Key, t.Effect))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		out = append(out, history.NewNodePrepared(history.PreparedLabel, key, s.Labels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		out = append(out, history.NewNodePrepared(history.PreparedAnnotation, key, s.Annotations[key]))
	}
	if s.DoNotDisrupt {
		out = append(out, history.NewNodePrepared(history.PreparedAnnotation, coredns.DoNotDisrupt, "true"))
	}
	if s.CapacityReservation != "" {
		out = append(out, history.NewNodePrepared(history.PreparedLabel, history.ReservationLabel, s.CapacityReservation))
	}
	if down := s.shutdown(); down != (Shutdown{}) {
		text := down.GracePeriod.D().String()
		if s.ShutdownGracePeriodCriticalPods != 0 {
			text += fmt.Sprintf(", %s of it for critical pods", down.CriticalPods.D())
		}
		out = append(out, history.NewNodePrepared(history.PreparedShutdown, "", text))
	}
	return out
}

func (s *Prepared) validate(where string, p *problems) {
	if s == nil {
		return
	}
	if len(s.States()) == 0 && s.ShutdownGracePeriod == nil {
		p.add(where, "prepares nothing; allowed: annotations, capacityReservation, cordoned, doNotDisrupt, labels, shutdownGracePeriod, taints")
	}
	var grace time.Duration
	if s.ShutdownGracePeriod != nil {
		grace = s.ShutdownGracePeriod.D()
	}
	validateShutdown(where+".shutdownGracePeriod", grace, where+".shutdownGracePeriodCriticalPods", s.ShutdownGracePeriodCriticalPods.D(), p)
	if id := s.CapacityReservation; id != "" && !reservationID.MatchString(id) {
		p.add(where+".capacityReservation", "%q is not cr- and 17 hexadecimal digits", id)
	}
	for _, state := range s.States() {
		setting := state.Setting()
		if setting.Key != "" && setting.Key != coredns.DoNotDisrupt && setting.Key != history.ReservationLabel && !history.OperatorsKey(setting.Key) {
			p.add(where, "%s %q is not of the domain %s, so it could not be distinguished from those of others", state.Preparation(), setting.Key, history.OperatorsDomain)
		}
		if state.Preparation() == history.PreparedTaint {
			oneOf(p, where+".taints", setting.Value, TaintEffects())
		}
	}
}

// prepared returns the names of the nodes that are prepared.
func (s Scenario) prepared() []string {
	var out []string
	for name, pick := range s.Nodes {
		if pick.Prepared != nil {
			out = append(out, name)
		}
	}
	return out
}
