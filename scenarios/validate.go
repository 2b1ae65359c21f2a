package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// validate returns everything that is wrong with the scenario, so that an
// author mends it in one go.
func (s Scenario) validate(fileName string) []error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	oneOf := func(field, value string, allowed []string) {
		if !slices.Contains(allowed, value) {
			fail("%s: %q is not known; allowed: %s", field, value, strings.Join(allowed, ", "))
		}
	}
	oneOf("apiVersion", s.APIVersion, []string{APIVersion})
	oneOf("kind", s.Kind, []string{Kind})
	if s.Name != fileName {
		fail("name: %q must be the file's name, %q", s.Name, fileName)
	}
	for field, value := range map[string]string{"title": s.Title, "description": s.Description, "source": s.Source} {
		if strings.TrimSpace(value) == "" {
			fail("%s: must not be empty", field)
		}
	}
	oneOf("profile", s.Profile, Profiles())
	if len(s.Sets) == 0 {
		fail("sets: wants at least one of: %s, %s", Fast, Full)
	}
	for _, set := range s.Sets {
		oneOf("sets", string(set), []string{string(Fast), string(Full)})
	}
	if s.Feature != "" {
		oneOf("feature", s.Feature, Features())
	}
	oneOf("handler", s.Handler, []string{HandlerUnderTest, HandlerNone})
	for name, pick := range s.Nodes {
		oneOf("nodes."+name+".capacity", pick.Capacity, []string{"spot", "on-demand"})
		if pick.Runs != "" {
			oneOf("nodes."+name+".runs", pick.Runs, []string{"coredns"})
		}
	}
	s.CoreDNS.validate(fail, oneOf)
	s.validateSteps(fail, oneOf)
	s.validateChecks(fail, oneOf)
	return errs
}

func (c CoreDNS) validate(fail func(string, ...any), oneOf func(string, string, []string)) {
	oneOf("coredns.placement", string(c.Placement), []string{string(OnSpot), string(OnOnDemand), string(Spread)})
	if c.Replicas < 1 || c.Replicas > 10 {
		fail("coredns.replicas: %d is not within 1 to 10", c.Replicas)
	}
	if c.Readiness.Period.D() < time.Second || c.Readiness.Period.D()%time.Second != 0 {
		fail("coredns.readiness.period: %s is not a whole number of seconds, at least 1s", c.Readiness.Period.D())
	}
	if c.Readiness.FailureThreshold < 1 {
		fail("coredns.readiness.failureThreshold: %d is less than 1", c.Readiness.FailureThreshold)
	}
	if c.GracePeriod.D() <= c.Lameduck.D() || c.GracePeriod.D()%time.Second != 0 {
		fail("coredns.gracePeriod: %s is not a whole number of seconds above lameduck (%s), so the pod would be killed before it is done", c.GracePeriod.D(), c.Lameduck.D())
	}
}

func (s Scenario) validateSteps(fail func(string, ...any), oneOf func(string, string, []string)) {
	if len(s.Steps) == 0 {
		fail("steps: must not be empty")
	}
	if s.Settle <= 0 {
		fail("settle: must be more than 0s: what happens after the last step is part of the drill")
	}
	sent, notices := []string{}, []string{}
	named := func(where, name string) {
		switch {
		case name == "":
			fail("%s.name: must not be empty", where)
		case slices.Contains(sent, name):
			fail("%s.name: %q is used twice", where, name)
		}
		sent = append(sent, name)
	}
	for i, step := range s.Steps {
		where := fmt.Sprintf("steps[%d]", i)
		if _, err := strict.One(step); err != nil {
			fail("%s: %w", where, err)
			continue
		}
		switch {
		case step.Notice != nil:
			n := step.Notice
			named(where+".notice", n.Name)
			notices = append(notices, n.Name)
			oneOf(where+".notice.type", n.Type, NoticeTypes())
			for _, node := range n.Nodes {
				oneOf(where+".notice.nodes", node, s.nodeNames())
			}
			if (len(n.Nodes) == 0) == (n.Instance == "") {
				fail("%s.notice: wants either nodes or instance", where)
			}
			if n.Action != "" {
				oneOf(where+".notice.action", n.Action, []string{"terminate", "stop", "hibernate"})
			}
			if (n.Type == "state-change") != (n.State != "") {
				fail("%s.notice.state: goes with type state-change, and that one needs it", where)
			}
			if s.Deadline.Fast <= 0 || s.Deadline.Full <= 0 {
				fail("deadline: a scenario with a notice needs fast and full")
			}
		case step.Message != nil:
			named(where+".message", step.Message.Name)
			if step.Message.Body == "" {
				fail("%s.message.body: must not be empty: SQS refuses it", where)
			}
		case step.Reclaim != nil:
			oneOf(where+".reclaim.node", step.Reclaim.Node, s.nodeNames())
			oneOf(where+".reclaim.at", step.Reclaim.At, notices)
		case step.Await != nil:
			s.validateAwait(where+".await", *step.Await, sent, fail, oneOf)
		}
	}
}

func (s Scenario) validateAwait(where string, a Await, sent []string, fail func(string, ...any), oneOf func(string, string, []string)) {
	conditions := 0
	if a.Deleted != "" {
		conditions++
		oneOf(where+".deleted", a.Deleted, sent)
	}
	if a.Drained != "" {
		conditions++
		oneOf(where+".drained", a.Drained, s.nodeNames())
	}
	if a.Answering > 0 {
		conditions++
		if s.Probe == nil {
			fail("%s.answering: needs a probe", where)
		}
	}
	if conditions != 1 {
		fail("%s: wants exactly one of: answering, deleted, drained", where)
	}
	if a.Timeout <= 0 {
		fail("%s.timeout: must be more than 0s", where)
	}
}

// validateChecks holds the fields that checks share to the same rules: node,
// notice and of must name something of the scenario, within must be given.
func (s Scenario) validateChecks(fail func(string, ...any), oneOf func(string, string, []string)) {
	if len(s.Checks) == 0 {
		fail("checks: must not be empty: a drill that checks nothing cannot fail")
	}
	var sent, notices []string
	for _, step := range s.Steps {
		if step.Notice != nil {
			sent, notices = append(sent, step.Notice.Name), append(notices, step.Notice.Name)
		}
		if step.Message != nil {
			sent = append(sent, step.Message.Name)
		}
	}
	for i, check := range s.Checks {
		name, err := strict.One(check)
		where := fmt.Sprintf("checks[%d]", i)
		if err != nil {
			fail("%s: %w", where, err)
			continue
		}
		where += "." + name
		v := check.value()
		for field, allowed := range map[string][]string{"Node": s.nodeNames(), "Notice": notices, "Of": sent, "Mode": {"all", "fixed", "fresh"}} {
			if f := v.FieldByName(field); f.IsValid() {
				oneOf(where+"."+strings.ToLower(field), f.String(), allowed)
			}
		}
		if f := v.FieldByName("Within"); f.IsValid() && f.Int() <= 0 && check.Drained == nil {
			fail("%s.within: must be more than 0s", where)
		}
		if (check.DNSLost != nil || check.DNSWindow != nil) && s.Probe == nil {
			fail("%s: needs a probe", where)
		}
		if w := check.DNSWindow; w != nil && w.Min == 0 && w.Max == 0 {
			fail("%s: wants min, max or both", where)
		}
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
