package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// EndpointStays has the parameters of checkEndpointStays.
type EndpointStays struct {
	Node string `yaml:"node"`
	// AtLeast is the shortest time that the endpoint must stay ready.
	AtLeast strict.Duration `yaml:"atLeast"`
}

// Validate checks the parameters.
func (c EndpointStays) Validate(in *scenarios.Scope) {
	in.Node(c.Node)
	if slices.Contains(in.Nodes, c.Node) && !slices.Contains(in.Reclaimed, c.Node) {
		in.Problem("node", "no step takes the instance of %q, so the check could never be decided", c.Node)
	}
	in.Positive("atLeast", c.AtLeast)
}

// DecidedBy is how long it needs the recording.
func (c EndpointStays) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Reclaimed[c.Node] + c.AtLeast.D())
}

var checkEndpointStays = by(Kind{
	ID: "endpointStays", Title: "endpoint of %s stays", Verdicts: []ID{"endpointLeft"},
	Requires: "The kube-dns endpoint of the node's CoreDNS pod stays ready for at least this long after the instance was taken: only the node controller notices the loss.",
	Fix:      "something noticed the loss before the node controller did: look for who deleted the pod or changed the EndpointSlice",
	Look:     Look{Lane: LaneEndpoints, Text: "the lane kube-dns endpoints: when the address left, and who noticed"},
}, endpointStays)

func endpointStays(j judge, v Verdict, c EndpointStays) Verdict {
	v = v.as("endpointLeft", "endpoint of %s stays").requires(fmt.Sprintf("the node's CoreDNS endpoint ready for at least %s after its instance was taken", c.AtLeast.D()), c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	taken, ok := j.Reclaimed(node)
	if !ok {
		return v.unknown(fmt.Sprintf("the instance of %s was never taken", node))
	}
	before, after := story.EndpointAround(j.Story, node, taken.At)
	switch {
	case before == nil:
		return v.unknown("no CoreDNS endpoint was seen on "+node, taken)
	case before.Kind != history.EndpointReady:
		return v.fail("it was not ready any more when the instance was taken", *before, taken)
	case after == nil && j.Unseen(taken.At+c.AtLeast.D()) != "":
		return v.unknown("still ready: "+j.Unseen(taken.At+c.AtLeast.D()), *before, taken)
	case after == nil:
		return v.pass("still ready when the recording ended", *before, taken)
	}
	left := after.At - taken.At
	v.Numbers = map[string]float64{"endpoint_seconds": left.Seconds()}
	if left < c.AtLeast.D() {
		return v.fail(fmt.Sprintf("%s after %s", after.Kind, history.Seconds(left)), taken, *after)
	}
	return v.pass(fmt.Sprintf("%s after %s", after.Kind, history.Seconds(left)), taken, *after)
}
