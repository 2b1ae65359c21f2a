package fault

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Point is one call of a handler's, named so that it is the same call in each play: the n-th of its kind since the fault's step.
// Its text is "patch nodes victim #1", "create pods/eviction #2" or "DeleteMessage #1".
type Point struct {
	// Call is the verb of RBAC, on the API server, or the action of SQS.
	Call string
	// Resource is what the call is about, on the API server, as in kubectl.
	Resource string
	// Node is the Node object that it is about; empty for a call about any object.
	Node string
	// N is the number of the call, from 1.
	N int
}

// pointText is a point as a fault has it.
var pointText = regexp.MustCompile(`^(\S+)(?: (\S+))?(?: (\S+))? #([1-9]\d{0,3})$`)

// ParsePoint reads a point. The error names the forms that there are.
func ParsePoint(on history.FaultTarget, text string) (Point, error) {
	m := pointText.FindStringSubmatch(text)
	if len(m) == 0 || (m[2] == "") != (on == history.OnQueue) {
		example := "patch nodes victim #1 or create pods/eviction #2"
		if on == history.OnQueue {
			example = "DeleteMessage #1"
		}
		return Point{}, fmt.Errorf("%q is not a call on %s and its number, such as %s", text, on, example)
	}
	p := Point{Call: m[1], Resource: m[2], Node: m[3]}
	p.N, _ = strconv.Atoi(m[4]) // the expression has checked it
	calls := Verbs()
	if on == history.OnQueue {
		calls = Actions()
	}
	switch {
	case !slices.Contains(calls, p.Call):
		return p, fmt.Errorf("%q is not known%s", p.Call, strict.Among(p.Call, calls))
	case p.Resource != "" && !resourceName.MatchString(p.Resource):
		return p, fmt.Errorf("%q is not a resource as in kubectl, such as nodes, pods/eviction or leases.coordination.k8s.io", p.Resource)
	case p.Node != "" && p.Resource != nodes:
		return p, fmt.Errorf("%q is only possible with %s", p.Node, nodes)
	}
	return p, nil
}

// nodes is the resource whose objects a point can name.
const nodes = "nodes"

// String is the text that ParsePoint reads.
func (p Point) String() string { return fmt.Sprintf("%s #%d", p.Kind(), p.N) }

// Kind is the point without its number.
func (p Point) Kind() string {
	return strings.Join(slices.DeleteFunc([]string{p.Call, p.Resource, p.Node}, func(part string) bool { return part == "" }), " ")
}

// Is reports whether a call is of the point's kind.
func (p Point) Is(call, resource, node string) bool {
	return p.Call == call && p.Resource == resource && (p.Node == "" || p.Node == node)
}

// point is the call at which the fault starts; false if it starts with its step.
func (f Fault) point() (Point, bool) {
	if f.At == "" {
		return Point{}, false
	}
	p, err := ParsePoint(f.On, f.At)
	return p, err == nil
}

// AtNode is the node of the call at which the fault starts; empty if there is none.
func (f Fault) AtNode() string {
	p, _ := f.point()
	return p.Node
}

// WithAtNode returns the fault with another name for that node: scenarios name nodes otherwise than the API server.
func (f Fault) WithAtNode(name string) Fault {
	if p, ok := f.point(); ok && p.Node != "" {
		p.Node = name
		f.At = p.String()
	}
	return f
}

// Hits reports whether the fault starts at a call and hits calls of that kind; decided is false if its other fields show what it hits.
func (f Fault) Hits(call, resource, node string) (hits, decided bool) {
	p, ok := f.point()
	if !ok || len(f.Verbs) > 0 || len(f.Resources) > 0 || len(f.Actions) > 0 {
		return false, false
	}
	return p.Is(call, resource, node), true
}
