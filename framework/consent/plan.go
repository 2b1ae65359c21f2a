package consent

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Plan is what a drill would touch, what keeps it safe, how it is put back, and why it is
// refused.
type Plan struct {
	Request Request // with its defaults, and the instance in its notice

	Pod      types.NamespacedName // that is evicted; only of evict-coredns
	PodUID   types.UID
	NodeUID  types.UID // of drain and notice
	Instance string    // the node's EC2 instance; empty if it has none

	Moves []string // namespace/name of each pod that would be evicted, sorted

	// For people, one sentence or two each.
	Touches, Safe, PutBack, Refusals []string
}

// Refused returns an error with every reason for which the plan cannot be played; nil if there
// is none.
func (p Plan) Refused() error {
	if len(p.Refusals) == 0 {
		return nil
	}
	return errors.New("the drill is refused: " + strings.Join(p.Refusals, "; "))
}

// WriteText writes the plan for people.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	section := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(title + "\n")
		for _, item := range items {
			b.WriteString("  - " + item + "\n")
		}
	}
	section("What is touched", p.Touches)
	for _, pod := range p.Moves {
		b.WriteString("      " + pod + "\n")
	}
	section("What keeps it safe", p.Safe)
	section("How it is put back", p.PutBack)
	section("Refused, because", p.Refusals)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// changedSince returns an error if a plan is not about the same objects as one that was made
// before it.
func (p Plan) changedSince(before Plan) error {
	switch {
	case p.NodeUID != before.NodeUID:
		return fmt.Errorf("node %s is not the one of the plan: it had the UID %s, and now %s; make a new plan", p.Request.Node, before.NodeUID, p.NodeUID)
	case p.Pod != before.Pod || p.PodUID != before.PodUID:
		return fmt.Errorf("the pod to evict is now %s (UID %s), and in the plan it was %s (UID %s); make a new plan", p.Pod, p.PodUID, before.Pod, before.PodUID)
	case p.Instance != before.Instance:
		return fmt.Errorf("the instance of node %s is now %q, and in the plan it was %q; make a new plan", p.Request.Node, p.Instance, before.Instance)
	}
	return nil
}
