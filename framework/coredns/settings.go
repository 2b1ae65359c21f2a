package coredns

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Settings are the settings of CoreDNS that decide whether queries are lost when a
// pod of it terminates.
type Settings struct {
	// Placement is the capacity of the nodes that the pods run on; spread takes spot
	// and on-demand in turn.
	Placement Placement `yaml:"placement"`
	Replicas  int       `yaml:"replicas"` // 1 to 10
	// Lameduck is for how long a terminating pod continues to answer: that of the
	// health plugin.
	Lameduck  strict.Duration `yaml:"lameduck"`
	Readiness Readiness       `yaml:"readiness"`
	// GracePeriod is the pods' terminationGracePeriodSeconds, longer than Lameduck.
	GracePeriod strict.Duration `yaml:"gracePeriod"`
}

// Placement says on which capacity the CoreDNS pods run.
type Placement string

// The placements. Spread puts replicas on spot and on-demand nodes in turn;
// anywhere is as kubeadm sets it, on any node, preferably apart.
const (
	OnSpot     Placement = "spot"
	OnOnDemand Placement = "on-demand"
	Spread     Placement = "spread"
	Anywhere   Placement = "anywhere"
)

// Placements lists every placement.
func Placements() []Placement { return []Placement{OnSpot, OnOnDemand, Spread, Anywhere} }

// Readiness is the readiness probe of the CoreDNS pods, on /ready.
type Readiness struct {
	Period strict.Duration `yaml:"period"` // whole seconds, at least 1s
	// FailureThreshold is after how many failures a pod is not Ready.
	FailureThreshold int `yaml:"failureThreshold"`
}

// Unready is how long a pod that does not answer the probe stays Ready at most.
func (r Readiness) Unready() time.Duration {
	return r.Period.D() * time.Duration(r.FailureThreshold)
}
