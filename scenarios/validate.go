package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// problems collects everything that is wrong with a scenario, so that its author can
// fix it all at once.
type problems []problem

type problem struct {
	field string // its path, such as steps[0].notice.type
	what  string
	// undefined reports that the field refers to a name where none is defined.
	undefined bool
}

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, problem{field: field, what: fmt.Sprintf(format, args...)})
}

// oneOf reports a value that is not among the allowed ones.
func oneOf[T ~string](p *problems, field string, value T, allowed []T) {
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(a T) bool { return a == "" })
	switch {
	case slices.Contains(allowed, value):
	case len(allowed) == 0:
		p.add(field, "%q is not known, and nothing is defined to choose from", value)
		(*p)[len(*p)-1].undefined = true
	default:
		p.add(field, "%q is not known%s", value, strict.Among(string(value), history.Words(allowed)))
	}
}

// oneOfIfSet is oneOf for a field that may be left out.
func oneOfIfSet[T ~string](p *problems, field string, value T, allowed []T) {
	if value != "" {
		oneOf(p, field, value, allowed)
	}
}

func (p *problems) positive(field string, d strict.Duration) {
	if d <= 0 {
		p.add(field, "must be more than 0s")
	}
}

// upTo reports a duration that is negative or longer than a limit.
func (p *problems) upTo(field string, d, limit time.Duration) {
	if d < 0 || d > limit {
		p.add(field, "%s is not within 0s to %s", d, limit)
	}
}

func (p *problems) atLeast0(field string, n int) {
	if n < 0 {
		p.add(field, "%d is less than 0", n)
	}
}

// onlyWith reports a field that is given without what it belongs to, or missing with
// it.
func (p *problems) onlyWith(field string, given, with bool, what any) {
	switch {
	case given && !with:
		p.add(field, "is only allowed with %v", what)
	case with && !given:
		p.add(field, "is required with %v", what)
	}
}

// count is how many of these hold.
func count(conditions ...bool) (n int) {
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n
}

// besides are the problems that do not follow from what could not be read: a field that is missing, or a name
// that nothing defines, may only be misspelled.
func (p problems) besides(unread error, text []byte) problems {
	return slices.DeleteFunc(p, func(one problem) bool { return one.undefined || strict.Follows(unread, text, one.field) })
}

// in sorts the problems by their lines in the file and returns them as one error.
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
	oneOf(&p, "apiVersion", s.APIVersion, []string{APIVersion})
	oneOf(&p, "kind", s.Kind, []string{Kind})
	if s.Name != fileName {
		p.add("name", "%q must be the file's name, %q", s.Name, fileName)
	}
	for field, value := range map[string]string{"title": s.Title, "description": s.Description, "source": s.Source} {
		if strings.TrimSpace(value) == "" {
			p.add(field, "must not be empty")
		}
	}
	if s.Observe == nil {
		oneOf(&p, "profile", s.Profile, Profiles())
	}
	if len(s.Sets) == 0 {
		p.add("sets", "requires at least one of: %s", strings.Join(history.Words(Sets()), ", "))
	}
	for _, set := range s.Sets {
		oneOf(&p, "sets", set, Sets())
	}
	oneOfIfSet(&p, "feature", s.Feature, feature.Names())
	if s.Setting != "" && slices.Contains(feature.Names(), s.Setting) {
		p.add("setting", "%q is a feature", s.Setting)
	}
	oneOf(&p, "handler", s.Handler, []string{HandlerUnderTest, HandlerNone})
	if s.Observe != nil {
		s.validateObserve(&p)
		return p
	}
	s.validateOther(&p)
	for name, pick := range s.Nodes {
		oneOf(&p, "nodes."+name+".capacity", pick.Capacity, capacities())
		oneOfIfSet(&p, "nodes."+name+".runs", pick.Runs, []string{"coredns"})
		pick.Prepared.validate("nodes."+name+".prepared", &p)
		pick.Launched.validate("nodes."+name+".launched", pick, &p)
	}
	validateDNS(s.CoreDNS, &p)
	if why := s.needsDeployment(); s.CoreDNS.DaemonSet && why != "" {
		p.add("coredns.daemonSet", "is not allowed with %s, which a Deployment has", why)
	}
	s.validateDelay(&p)
	s.validateLaunches(&p)
	s.validateShutdowns(&p)
	s.Workload.validate(s.Nodes, s.CoreDNS.Placement, &p)
	s.validateFleet(&p)
	s.validateClaims(&p)
	if s.Probe != nil {
		s.Probe.validate(&p)
		if s.Probe.Application != nil && s.Workload.Serves == nil {
			p.add("probe.application", "needs workload.serves: otherwise nothing answers")
		}
	}
	in := s.scope()
	s.validateSteps(in, &p)
	s.validateChecks(in, &p)
	return p
}

// needsDeployment is what of the scenario only a Deployment of CoreDNS has; empty if nothing.
func (s Scenario) needsDeployment() string {
	switch {
	case s.CoreDNS.AutoScaling != (coredns.AutoScaling{}):
		return "autoScaling"
	case s.CoreDNS.Placement == coredns.Launched:
		return "placement launched"
	case len(s.Actions(OnCoreDNS, Scale, Configure)) > 0:
		return "a step that scales or configures CoreDNS"
	case len(s.Actions(OnAddOn)) > 0:
		return "a step for an add-on"
	}
	return ""
}

// validateShutdowns checks that what delays a shutdown has one to delay.
func (s Scenario) validateShutdowns(p *problems) {
	down := s.ShutDown()
	for name, pick := range s.Nodes {
		if _, ok := down[name]; !ok && pick.Prepared != nil && pick.Prepared.ShutdownGracePeriod != nil {
			p.add("nodes."+name+".prepared.shutdownGracePeriod", "needs a step that shuts the node down: reclaim with shutdown")
		}
	}
}

// maxDelay leaves half of a query's timeout.
const maxDelay = time.Second

func (s *Scenario) validateDelay(p *problems) {
	switch d := s.CoreDNS.Delay.D(); {
	case d < 0 || d > maxDelay:
		p.add("coredns.delay", "%s is not within 0s to %s", d, maxDelay)
	case d > 0 && (s.Probe == nil || s.Probe.Name != coredns.DelayedName):
		p.add("coredns.delay", "needs probe.name %s: only this name is answered with a delay", coredns.DelayedName)
	case d == 0 && s.Probe != nil && s.Probe.Name == coredns.DelayedName:
		p.add("probe.name", "%s needs coredns.delay: otherwise there is no such name", coredns.DelayedName)
	}
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
