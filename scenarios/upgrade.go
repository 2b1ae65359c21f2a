package scenarios

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Upgrade upgrades an add-on to its next version, as Amazon EKS does. It continues when the pods
// are replaced, or when the upgrade has failed because of conflicts.
type Upgrade struct {
	// AddOn is its name; docs/addons.md describes each.
	AddOn string `yaml:"addOn"`
	// Conflicts is what becomes of fields that others own.
	Conflicts history.ConflictMode `yaml:"conflicts"`
	// Lameduck is a configuration value of the add-on coredns; left out, its own is 5s.
	Lameduck strict.Duration `yaml:"lameduck,omitempty"`
}

// The add-ons that can be upgraded.
const (
	CoreDNSAddOn = "coredns"
	// VPCCNIAddOn is there with workload.securityGroups.
	VPCCNIAddOn = "vpc-cni"
)

// AddOns lists the add-ons that can be upgraded.
func AddOns() []string { return []string{CoreDNSAddOn, VPCCNIAddOn} }

// String is the step in words.
func (u Upgrade) String() string {
	text := fmt.Sprintf("the add-on %s is upgraded with %s", u.AddOn, u.Conflicts)
	if u.Lameduck != 0 {
		text += fmt.Sprintf(" and lameduck %s as a configuration value", u.Lameduck.D())
	}
	return text
}

func (u Upgrade) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".addOn", u.AddOn, AddOns())
	oneOf(p, where+".conflicts", u.Conflicts, history.ConflictModes())
	p.upTo(where+".lameduck", u.Lameduck.D(), maxLameduck)
	if u.AddOn == VPCCNIAddOn {
		in.needsSecurityGroups(where+".addOn", p)
		if u.Lameduck != 0 {
			p.add(where+".lameduck", "is only allowed with %s", CoreDNSAddOn)
		}
	}
	in.upgraded = append(in.upgraded, u.AddOn)
}

func (u Upgrade) effect() effect { return effect{shared: true, allDNSPods: u.AddOn == CoreDNSAddOn} }

// SetValues sets the values of the add-on vpc-cni by hand again, as kubectl set env does. It
// continues when the pods are replaced.
type SetValues struct {
	// AddOn is its name.
	AddOn string `yaml:"addOn"`
	// After is how long to wait before that.
	After strict.Duration `yaml:"after,omitempty"`
}

// String is the step in words.
func (s SetValues) String() string {
	return fmt.Sprintf("the values of the add-on %s are set by hand%s", s.AddOn, detail("after", s.After))
}

func (s SetValues) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".addOn", s.AddOn, []string{VPCCNIAddOn})
	in.needsSecurityGroups(where, p)
}

func (s SetValues) effect() effect { return effect{takes: s.After.D(), shared: true} }

// AddOnUpgraded requires that the upgrade of an add-on is done, or is refused and changes nothing.
type AddOnUpgraded struct {
	// AddOn is the add-on of an upgrade step.
	AddOn string `yaml:"addOn"`
	// Refused requires that it is refused because of conflicts.
	Refused bool `yaml:"refused,omitempty"`
}

func (c AddOnUpgraded) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".addOn", c.AddOn, in.upgraded)
}

func (AddOnUpgraded) observed(Times) observation { return atEnd() }
