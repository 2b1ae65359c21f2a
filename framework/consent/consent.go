// Package consent drills a cluster that is not spotdrill's own, with the explicit consent of its
// user. It knows what a drill there would touch, whether that is safe, how it is done, and how it
// is put back, also after a crash. It measures and judges nothing, and reclaims no instance.
//
// The order is always the same: Inspect makes a Plan, which the user reads. OpenJournal opens a
// Journal, Play plays the plan, and Restore puts back what it changed, whether Play succeeded or
// not. After a crash, Pending finds what was not put back, and RestorePending does it.
package consent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// The Service of CoreDNS in most clusters.
const (
	defaultDNSNamespace = "kube-system"
	defaultDNSService   = "kube-dns"
)

// Request is what the user has asked to be done.
type Request struct {
	Action scenarios.Permission
	// Node is the node of a drain or a notice. An eviction takes a pod of that node only; empty
	// for any.
	Node           string
	DeleteEmptyDir bool // pods may lose the data in their emptyDir volumes
	Force          bool // pods without a controller may be evicted, which nothing creates again
	// Notice is what is sent. Inspect sets its Instances to the node's own.
	Notice       cloud.Notice
	Queue        string // where the notice is sent, in words; only for a notice
	DNSNamespace string // of the Service of CoreDNS; empty: kube-system
	DNSService   string // empty: kube-dns
}

// complete returns the request with its defaults, or an error if it makes no sense.
func (r Request) complete() (Request, error) {
	r.DNSNamespace = cmp.Or(r.DNSNamespace, defaultDNSNamespace)
	r.DNSService = cmp.Or(r.DNSService, defaultDNSService)
	switch {
	case !slices.Contains(scenarios.Permissions(), r.Action):
		return r, fmt.Errorf("unknown action %q, allowed: %q", r.Action, scenarios.Permissions())
	case r.Action != scenarios.EvictCoreDNS && r.Node == "":
		return r, fmt.Errorf("the action %s needs a node", r.Action)
	case r.Action == scenarios.SendNotice && r.Queue == "":
		return r, errors.New("the action notice needs a queue")
	case r.Action == scenarios.SendNotice:
		return r, aboutOneInstance(r.Notice)
	}
	return r, nil
}

// aboutOneInstance returns an error if a notice could be about anything else than the one
// instance that it gets.
func aboutOneInstance(n cloud.Notice) error {
	n.Instances = []string{"i-0123456789abcdef0"}
	if _, err := n.Envelopes("us-east-1", time.Now()); err != nil {
		return err
	}
	if n.Type == history.CapacityBlockExpiration {
		return fmt.Errorf("a notice %s names a reservation, which can have other instances: choose another notice", n.Type)
	}
	if n.Health.NoEntities || n.Health.Foreign > 0 {
		return fmt.Errorf("a notice %s must name only the instance of the node", n.Type)
	}
	for field := range n.Detail {
		if slices.Contains([]string{"instance-id", "EC2InstanceId", "affectedEntities", "capacity-reservation-id"}, field) {
			return fmt.Errorf("the field %s of the notice is the instance of the node, and cannot be set", field)
		}
	}
	return nil
}

// The errors by which a drill shows something about the cluster, rather than that it failed.
var (
	// ErrNoHandler: nothing marked the node after the notice.
	ErrNoHandler = errors.New("no handler received it")
	// ErrNotMoved: pods that had to be evicted are still there.
	ErrNotMoved = errors.New("not all pods were moved")
)

// few joins names for a sentence: the first ones, and how many more there are.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
