package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// problems collects all that is wrong with a scenario, so that an author mends
// it in one go.
type problems []problem

type problem struct {
	field string // its path, such as steps[0].notice.type
	what  string
}

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, problem{field, fmt.Sprintf(format, args...)})
}

func (p *problems) oneOf(field, value string, allowed []string) {
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" })
	switch {
	case slices.Contains(allowed, value):
	case len(allowed) == 0:
		p.add(field, "%q is not known, and nothing is defined to choose from", value)
	default:
		p.add(field, "%q is not known; allowed: %s", value, strings.Join(allowed, ", "))
	}
}

// in sorts the problems by their lines in the file and makes them errors.
func (p problems) in(file string, text []byte) error {
	lines := map[problem]int{}
	for _, one := range p {
		lines[one] = strict.Line(text, one.field)
	}
	slices.SortStableFunc(p, func(a, b problem) int {
		return cmp.Or(cmp.Compare(lines[a], lines[b]), cmp.Compare(a.field, b.field))
	})
	errs := make([]error, 0, len(p))
	for _, one := range slices.Compact(p) {
		errs = append(errs, fmt.Errorf("%s:%d: %s: %s", file, lines[one], one.field, one.what))
	}
	return errors.Join(errs...)
}

func (s Scenario) validate(fileName string) problems {
	var p problems
	p.oneOf("apiVersion", s.APIVersion, []string{APIVersion})
	p.oneOf("kind", s.Kind, []string{Kind})
	if s.Name != fileName {
		p.add("name", "%q must be the file's name, %q", s.Name, fileName)
	}
	for field, value := range map[string]string{"title": s.Title, "description": s.Description, "source": s.Source} {
		if strings.TrimSpace(value) == "" {
			p.add(field, "must not be empty")
		}
	}
	p.oneOf("profile", s.Profile, Profiles())
	if len(s.Sets) == 0 {
		p.add("sets", "wants at least one of: %s, %s", Fast, Full)
	}
	for _, set := range s.Sets {
		p.oneOf("sets", string(set), []string{string(Fast), string(Full)})
	}
	if s.Feature != "" {
		p.oneOf("feature", s.Feature, feature.Names())
	}
	p.oneOf("handler", s.Handler, []string{HandlerUnderTest, HandlerNone})
	for name, pick := range s.Nodes {
		p.oneOf("nodes."+name+".capacity", pick.Capacity, []string{"spot", "on-demand"})
		if pick.Runs != "" {
			p.oneOf("nodes."+name+".runs", pick.Runs, []string{"coredns"})
		}
	}
	validateDNS(s.CoreDNS, &p)
	s.Workload.validate(s.Nodes, &p)
	if s.Probe != nil {
		s.Probe.validate(&p)
	}
	s.validateSteps(&p)
	s.validateChecks(&p)
	return p
}

func validateDNS(c coredns.Settings, p *problems) {
	validatePlacement("coredns.placement", c.Placement, p)
	validateReplicas("coredns.replicas", c.Replicas, p)
	validateReadiness("coredns.readiness", c.Readiness, p)
	if c.GracePeriod.D() <= c.Lameduck.D() || c.GracePeriod.D()%time.Second != 0 {
		p.add("coredns.gracePeriod", "%s is not a whole number of seconds above lameduck (%s), so the pod would be killed before it is done", c.GracePeriod.D(), c.Lameduck.D())
	}
}

func validatePlacement(where string, of coredns.Placement, p *problems) {
	p.oneOf(where, string(of), history.Words(coredns.Placements()))
}

func validateReplicas(where string, n int, p *problems) {
	if n < 1 || n > 10 {
		p.add(where, "%d is not within 1 to 10", n)
	}
}

func validateReadiness(where string, r coredns.Readiness, p *problems) {
	if r.Period.D() < time.Second || r.Period.D()%time.Second != 0 {
		p.add(where+".period", "%s is not a whole number of seconds, at least 1s", r.Period.D())
	}
	if r.FailureThreshold < 1 {
		p.add(where+".failureThreshold", "%d is less than 1", r.FailureThreshold)
	}
}

func (r Probe) validate(p *problems) {
	p.oneOf("probe.transport", string(r.Transport), Transports())
	if r.Probers < 1 || r.Probers > MaxProbers {
		p.add("probe.probers", "%d is not within 1 to %d", r.Probers, MaxProbers)
		return
	}
	for field, value := range map[string]int{"fresh": r.Fresh, "fixed": r.Fixed, "fixedPorts": r.FixedPorts, "control": r.Control} {
		if value < r.Probers {
			p.add("probe."+field, "%d is less than 1 for each prober", value)
		}
	}
}

func (s Scenario) validateSteps(p *problems) {
	if len(s.Steps) == 0 {
		p.add("steps", "must not be empty")
	}
	if s.Settle <= 0 {
		p.add("settle", "must be more than 0s: what happens after the last step is part of the drill")
	}
	sent, notices := []string{}, []string{}
	named := func(where, name string) {
		switch {
		case name == "":
			p.add(where+".name", "must not be empty")
		case slices.Contains(sent, name):
			p.add(where+".name", "%q is used twice", name)
		}
		sent = append(sent, name)
	}
	for i, step := range s.Steps {
		where := fmt.Sprintf("steps[%d]", i)
		if _, err := strict.One(step); err != nil {
			p.add(where, "%v", err)
			continue
		}
		switch {
		case step.Notice != nil:
			n := step.Notice
			named(where+".notice", n.Name)
			notices = append(notices, n.Name)
			p.oneOf(where+".notice.type", string(n.Type), history.Words(history.NoticeTypes()))
			for _, node := range n.Nodes {
				p.oneOf(where+".notice.nodes", node, s.nodeNames())
			}
			if given := []bool{len(n.Nodes) > 0, n.Instance != "", n.InstanceLike != ""}; count(given) != 1 {
				p.add(where+".notice", "wants one of nodes, instance and instanceLike")
			}
			if n.InstanceLike != "" {
				p.oneOf(where+".notice.instanceLike", n.InstanceLike, s.nodeNames())
			}
			if n.Action != "" {
				p.oneOf(where+".notice.action", n.Action, []string{"terminate", "stop", "hibernate"})
			}
			if (n.Type == history.StateChange) != (n.State != "") {
				p.add(where+".notice.state", "goes with type state-change, and that one needs it")
			}
			if s.Deadline.Fast <= 0 || s.Deadline.Full <= 0 {
				p.add("deadline", "a scenario with a notice needs fast and full")
			}
		case step.Message != nil:
			named(where+".message", step.Message.Name)
			step.Message.validate(where+".message", s.nodeNames(), p)
		case step.Reclaim != nil:
			p.oneOf(where+".reclaim.node", step.Reclaim.Node, s.nodeNames())
			if step.Reclaim.At != "" {
				p.oneOf(where+".reclaim.at", step.Reclaim.At, notices)
			}
		case step.Await != nil:
			s.validateAwait(where+".await", *step.Await, sent, faultNames(s.Steps[:i]), p)
		case step.Fault != nil:
			f := step.Fault
			switch {
			case f.Name == "":
				p.add(where+".fault.name", "must not be empty")
			case slices.Contains(faultNames(s.Steps[:i]), f.Name):
				p.add(where+".fault.name", "%q is used twice", f.Name)
			}
			f.validate(where+".fault", p)
		case step.Budget != nil:
			step.Budget.validate(where+".budget", s.Workload.budgeted(), notices, changeNames(s.Steps[:i]), p)
		case step.Disrupt != nil:
			step.Disrupt.validate(where+".disrupt", s.nodeNames(), p)
		case step.Disturb != nil:
			step.Disturb.validate(where+".disturb", disturbanceNames(s.Steps[:i]), p)
			if s.Handler == HandlerNone {
				p.add(where+".disturb", "the scenario has no handler")
			}
		}
	}
}

func (s Scenario) validateAwait(where string, a Await, sent, faults []string, p *problems) {
	conditions := 0
	for field, of := range map[string]struct {
		name    string
		allowed []string
	}{
		"deleted": {a.Deleted, sent}, "received": {a.Received, sent},
		"evicting": {a.Evicting, s.nodeNames()}, "drained": {a.Drained, s.nodeNames()},
		"hit": {a.Hit, faults}, "ended": {a.Ended, faults}, "ready": {a.Ready, s.Workload.Groups()},
	} {
		if of.name != "" {
			conditions++
			p.oneOf(where+"."+field, of.name, of.allowed)
		}
	}
	if a.Answering > 0 {
		conditions++
		if s.Probe == nil {
			p.add(where+".answering", "needs a probe")
		}
	}
	if conditions != 1 {
		p.add(where, "wants exactly one of: answering, deleted, drained, ended, evicting, hit, ready, received")
	}
	if a.Timeout <= 0 {
		p.add(where+".timeout", "must be more than 0s")
	}
}

// validateChecks holds the fields that checks share to the same rules: node,
// notice, of, pods and budget must name something of the scenario, within must
// be given.
func (s Scenario) validateChecks(p *problems) {
	if len(s.Checks) == 0 {
		p.add("checks", "must not be empty: a drill that checks nothing cannot fail")
	}
	var sent, notices []string
	names := map[string][]string{} // the nodes that a notice names
	for _, step := range s.Steps {
		if n := step.Notice; n != nil {
			sent, notices, names[n.Name] = append(sent, n.Name), append(notices, n.Name), n.Nodes
		}
		if step.Message != nil {
			sent = append(sent, step.Message.Name)
		}
	}
	for i, check := range s.Checks {
		name, err := strict.One(check)
		where := fmt.Sprintf("checks[%d]", i)
		if err != nil {
			p.add(where, "%v", err)
			continue
		}
		where += "." + name
		v := check.value()
		for field, allowed := range map[string][]string{"Node": s.nodeNames(), "Notice": notices, "Of": sent, "Mode": {"all", "fixed", "fresh"}} {
			if f := v.FieldByName(field); f.IsValid() {
				p.oneOf(where+"."+strings.ToLower(field), f.String(), allowed)
			}
		}
		if f := v.FieldByName("After"); f.IsValid() && f.String() != "" {
			p.oneOf(where+".after", f.String(), faultNames(s.Steps))
		}
		if f := v.FieldByName("Pods"); f.IsValid() && (f.String() != "" || check.Drained == nil) {
			allowed := s.Workload.Groups()
			if check.BudgetKept != nil {
				allowed = s.Workload.budgeted()
			}
			p.oneOf(where+".pods", f.String(), allowed)
		}
		if f := v.FieldByName("Disturbance"); f.IsValid() {
			p.oneOf(where+".disturbance", f.String(), disturbanceNames(s.Steps))
		}
		if f := v.FieldByName("Budget"); f.IsValid() {
			p.oneOf(where+".budget", f.String(), changeNames(s.Steps))
		}
		if f := v.FieldByName("Within"); f.IsValid() && f.Int() <= 0 && check.Drained == nil {
			p.add(where+".within", "must be more than 0s")
		}
		if node, notice := v.FieldByName("Node"), v.FieldByName("Notice"); node.IsValid() && notice.IsValid() {
			if n := notice.String(); slices.Contains(notices, n) && !slices.Contains(names[n], node.String()) {
				p.add(where+".notice", "%q does not name node %q", n, node)
			}
		}
		check.validateBounds(where, s.Probe != nil, p)
	}
}

// validateBounds refuses bounds that nothing, or everything, would keep.
func (c Check) validateBounds(where string, probed bool, p *problems) {
	if (c.DNSLost != nil || c.DNSWindow != nil) && !probed {
		p.add(where, "needs a probe")
	}
	if c.DNSLost != nil && c.DNSLost.Max < 0 {
		p.add(where+".max", "%d is less than 0", c.DNSLost.Max)
	}
	if w := c.DNSWindow; w != nil {
		switch {
		case w.Min == 0 && w.Max == 0:
			p.add(where, "wants min, max or both")
		case w.Max > 0 && w.Min > w.Max:
			p.add(where+".min", "%s is more than max (%s)", w.Min.D(), w.Max.D())
		}
	}
	if c.GraceHonoured != nil && c.GraceHonoured.AtLeast == 0 {
		p.add(where+".atLeast", "must be more than 0s")
	}
	if c.EndpointLeft != nil && c.EndpointLeft.AtLeast == 0 {
		p.add(where+".atLeast", "must be more than 0s")
	}
}

// value is the struct that the check's one field points to.
func (c Check) value() reflect.Value {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsNil() {
			return f.Elem()
		}
	}
	return reflect.Value{}
}

func (s Scenario) nodeNames() []string {
	out := make([]string, 0, len(s.Nodes))
	for name := range s.Nodes {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// count is how many of these hold.
func count(given []bool) (n int) {
	for _, is := range given {
		if is {
			n++
		}
	}
	return n
}
