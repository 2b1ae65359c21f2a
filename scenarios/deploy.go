package scenarios

import (
	"fmt"
	"regexp"
)

var objectName = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// Deploy creates a DaemonSet on the nodes that the handler launches, and on all that it launches
// later. Its pods are Pending where they do not fit.
type Deploy struct {
	// DaemonSet is its name.
	DaemonSet string `yaml:"daemonSet"`
	// Memory is what each of its pods requests, such as 1Gi.
	Memory string `yaml:"memory"`
}

// String is the step in words.
func (d Deploy) String() string {
	return fmt.Sprintf("DaemonSet %s is created, whose pods request %s of memory", d.DaemonSet, d.Memory)
}

func (d Deploy) validate(where string, in *scope, p *problems) {
	if !objectName.MatchString(d.DaemonSet) {
		p.add(where+".daemonSet", "%q is no name of an object: lower case letters, digits and hyphens", d.DaemonSet)
	}
	in.once(where, d.DaemonSet, in.daemonSets, p)
	in.daemonSets = append(in.daemonSets, d.DaemonSet)
	if !memory.MatchString(d.Memory) {
		p.add(where+".memory", "%q is no amount of memory such as 2Gi or 512Mi", d.Memory)
	}
}

func (d Deploy) effect() effect { return effect{shared: true} }
