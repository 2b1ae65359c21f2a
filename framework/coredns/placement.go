package coredns

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Placement is where the CoreDNS pods run.
type Placement string

// The placements.
const (
	OnSpot     Placement = "spot"
	OnOnDemand Placement = "on-demand"
	Spread     Placement = "spread"   // evenly over spot and on-demand nodes
	Anywhere   Placement = "anywhere" // on any node, preferably on different ones: as kubeadm sets it
	// Launched pods require a node with the taint and the label LaunchedKey, one for each,
	// which the handler launches.
	Launched Placement = "launched"
)

// LaunchedKey is the taint and the label, with the value "true", of nodes that a handler
// launches for the CoreDNS pods.
const LaunchedKey = "spotdrill.dev/launched"

// Placements lists every placement.
func Placements() []Placement { return []Placement{OnSpot, OnOnDemand, Spread, Anywhere, Launched} }

// Readiness is the readiness probe of the CoreDNS pods, an HTTP request for /ready.
type Readiness struct {
	// Period is the time between two probes, in whole seconds and at least 1s.
	Period strict.Duration `yaml:"period"`
	// FailureThreshold is the number of failures in a row after which a pod is not Ready.
	FailureThreshold int `yaml:"failureThreshold"`
	// Timeout is how long a probe waits for an answer, in whole seconds; left out, 1s.
	Timeout strict.Duration `yaml:"timeout,omitempty"`
	// InitialDelay is how long a container runs before its first probe, in whole seconds; left out, 0s.
	InitialDelay strict.Duration `yaml:"initialDelay,omitempty"`
}

// String is the probe in words.
func (r Readiness) String() string {
	if r == (Readiness{}) {
		return "no readiness probe"
	}
	text := fmt.Sprintf("readiness %s x %d", r.Period.D(), r.FailureThreshold)
	if r.Timeout != 0 {
		text += fmt.Sprintf(" timeout %s", r.Timeout.D())
	}
	if r.InitialDelay != 0 {
		text += fmt.Sprintf(" after %s", r.InitialDelay.D())
	}
	return text
}

// Unready returns how long a pod that fails the probe stays Ready at most.
func (r Readiness) Unready() time.Duration {
	return r.Period.D() * time.Duration(r.FailureThreshold)
}
