package scenarios

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// String is the step in words: "notice reclaim: spot-interruption for victim".
func (s Step) String() string {
	switch {
	case s.Notice != nil:
		return s.Notice.String()
	case s.Message != nil:
		text := fmt.Sprintf("message %s straight into the queue", s.Message.Name)
		if s.Message.Times > 1 {
			text += fmt.Sprintf(", %d times", s.Message.Times)
		}
		return text
	case s.Await != nil:
		return s.Await.String()
	case s.Reclaim != nil:
		if s.Reclaim.At == "" {
			return fmt.Sprintf("the instance of %s is taken without a notice", s.Reclaim.Node)
		}
		return fmt.Sprintf("the instance of %s is taken at the deadline of %s", s.Reclaim.Node, s.Reclaim.At)
	case s.Disrupt != nil:
		return s.Disrupt.String()
	case s.Fault != nil:
		return s.Fault.String()
	case s.Budget != nil:
		b := s.Budget
		return fmt.Sprintf("budget of %s: minAvailable %d, %s after %s", b.Pods, b.MinAvailable, b.After.D(), b.At)
	case s.Disturb != nil:
		return s.Disturb.String()
	}
	return ""
}

// String is the notice in words.
func (n Notice) String() string {
	text := fmt.Sprintf("notice %s: %s", n.Name, n.Type)
	if detail := cmp.Or(n.Action, n.State); detail != "" {
		text += " (" + detail + ")"
	}
	whom := n.Nodes
	if n.Instance != "" {
		whom = append(whom[:len(whom):len(whom)], "instance "+n.Instance+", which is not in the cluster")
	}
	if n.InstanceLike != "" {
		whom = append(whom[:len(whom):len(whom)], "an instance which is not in the cluster, its id almost that of "+n.InstanceLike)
	}
	return text + " for " + strings.Join(whom, ", ")
}

// String is what is awaited, in words.
func (a Await) String() string {
	what := ""
	switch {
	case a.Deleted != "":
		what = "the messages of " + a.Deleted + " are deleted"
	case a.Received != "":
		what = "the messages of " + a.Received + " are handed out"
	case a.Evicting != "":
		what = "a pod of " + a.Evicting + " is told to end"
	case a.Drained != "":
		what = "no evictable pod is left on " + a.Drained
	case a.Answering > 0:
		what = fmt.Sprintf("DNS has answered every query for %s", a.Answering.D())
	case a.Hit != "":
		what = "fault " + a.Hit + " has hit a call"
	case a.Ended != "":
		what = "fault " + a.Ended + " is over"
	case a.Ready != "":
		what = "the pods of " + a.Ready + " are Ready again"
	}
	return fmt.Sprintf("wait until %s, at most %s", what, a.Timeout.D())
}

// String is what is done to the handler, in words.
func (d Disturb) String() string {
	what := map[history.Disturbance]string{
		history.KillHandler: "is killed", history.UpdateHandler: "is updated",
		history.CutOffHandler: "is cut off from the Kubernetes API", history.ScaleHandler: "is scaled",
	}[d.Handler]
	text := fmt.Sprintf("disturbance %s: the handler %s", d.Name, what)
	if d.For > 0 {
		text += " for " + d.For.D().String()
	}
	if d.Replicas > 0 {
		text += fmt.Sprintf(" to %d replicas", d.Replicas)
	}
	return text
}

// String is the fault in words.
func (f Fault) String() string {
	text := fmt.Sprintf("fault %s: %s", f.Name, f.Type)
	for _, detail := range []struct {
		name  string
		value time.Duration
	}{{"by", f.By.D()}, {"after", f.After.D()}, {"for", f.For.D()}} {
		if detail.value > 0 {
			text += fmt.Sprintf(" %s %s", detail.name, detail.value)
		}
	}
	if f.ToAnother {
		text += " to another replica"
	}
	if f.Status != 0 {
		text += fmt.Sprintf(" with status %d", f.Status)
	}
	if f.Code != "" {
		text += " with " + f.Code
	}
	if f.Count > 0 {
		text += fmt.Sprintf(", %d calls", f.Count)
	}
	if len(f.Actions) > 0 {
		text += " of " + strings.Join(f.Actions, ", ")
	}
	return text
}
