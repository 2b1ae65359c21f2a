package scenarios

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
)

// The add-ons that can be upgraded.
const (
	CoreDNSAddOn = "coredns"
	// VPCCNIAddOn is there with workload.securityGroups.
	VPCCNIAddOn = "vpc-cni"
)

// AddOns lists the add-ons that can be upgraded.
func AddOns() []string { return []string{CoreDNSAddOn, VPCCNIAddOn} }

// addOnActions are done to an add-on. The drill continues when its pods are replaced, or when the
// upgrade has failed because of conflicts.
func addOnActions() map[Verb]action {
	return map[Verb]action{
		// As Amazon EKS does.
		Upgrade: {
			needs: []string{"addOn", "conflicts"}, allows: []string{"lameduck"},
			text: func(d Do) string {
				words := fmt.Sprintf("the add-on %s is upgraded with %s", d.AddOn, d.Conflicts)
				if d.Lameduck != nil {
					words += fmt.Sprintf(" and lameduck %s as a configuration value", d.Lameduck.D())
				}
				return words
			},
			validate: func(d Do, where string, in *scope, p *problems) {
				oneOf(p, where+".addOn", d.AddOn, AddOns())
				oneOf(p, where+".conflicts", d.Conflicts, history.ConflictModes())
				p.upTo(where+".lameduck", orZero(d.Lameduck).D(), maxLameduck)
				if d.AddOn == VPCCNIAddOn {
					in.needsSecurityGroups(where+".addOn", p)
					if d.Lameduck != nil {
						p.add(where+".lameduck", "is only allowed with %s", CoreDNSAddOn)
					}
				}
				in.Upgraded = append(in.Upgraded, d.AddOn)
			},
			effect: func(d Do) effect {
				if d.AddOn == CoreDNSAddOn {
					return effect{alone: []Resource{ClusterDNS}, allDNSPods: true}
				}
				return effect{alone: []Resource{AllNodes}}
			},
		},
		// By hand, as kubectl set env does.
		Configure: {
			needs: []string{"addOn"}, effect: alone(AllNodes),
			text: func(d Do) string { return fmt.Sprintf("the values of the add-on %s are set by hand", d.AddOn) },
			validate: func(d Do, where string, in *scope, p *problems) {
				oneOf(p, where+".addOn", d.AddOn, []string{VPCCNIAddOn})
				in.needsSecurityGroups(where, p)
			},
		},
	}
}
