package launch

import (
	"cmp"
	"slices"

	"github.com/spotdrill/spotdrill/framework/cloud"
)

// state is what a spare worker is.
type state string

const (
	parked  state = "parked"
	joining state = "joining" // becomes the node of its instance
	joined  state = "joined"
	ending  state = "ending" // its instance is gone, its Node object or its container not yet
)

// spare is a spare worker, and the id and zone of the instance that it is or was last.
type spare struct {
	name     string
	state    state
	instance string
	zone     string
	// turn is the number of the launch that it joined for last, from 1; 0 for none.
	turn int
	// rank is 0 for a worker, and 1 for a virtual node, which is used if no worker is left.
	rank int
}

// plan is what to do about the instances that EC2 has launched.
type plan struct {
	join []assignment
	// end are the workers whose instances are gone.
	end []string
	// unassigned are the instances for which no spare worker is left.
	unassigned []cloud.Launched
}

// assignment is an instance and the worker that becomes it.
type assignment struct {
	worker   string
	instance cloud.Launched
}

// planFor finds which parked workers are to become instances, and which joined ones are to end.
// A failed instance is not tried again: one that did not register does not later.
func planFor(spares []spare, instances []cloud.Launched, failed map[string]error) plan {
	var p plan
	taken := map[string]bool{}
	var free []spare
	for _, s := range spares {
		switch s.state {
		case parked:
			free = append(free, s)
			continue
		case joined:
			if !runs(instances, s.instance) {
				p.end = append(p.end, s.name)
			}
		}
		taken[s.instance] = true
	}
	// A name that comes again in the same record is hard to follow: the one that was used longest
	// ago comes first.
	slices.SortStableFunc(free, func(a, b spare) int { return cmp.Or(a.rank-b.rank, a.turn-b.turn) })
	for _, i := range instances {
		switch {
		case i.Ended || taken[i.ID] || failed[i.ID] != nil:
		case len(free) == 0:
			p.unassigned = append(p.unassigned, i)
		default:
			p.join, free = append(p.join, assignment{free[0].name, i}), free[1:]
		}
	}
	return p
}

// runs reports whether an instance has not ended.
func runs(instances []cloud.Launched, id string) bool {
	return slices.ContainsFunc(instances, func(i cloud.Launched) bool { return i.ID == id && !i.Ended })
}
