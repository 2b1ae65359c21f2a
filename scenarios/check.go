package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Check is one requirement on what was recorded: a kind of check with its parameters. In
// addition, every drill is judged by the checks that always apply.
type Check struct {
	// Kind is the key in YAML, such as drainedOnce.
	Kind string
	// Requirement is nil until the check is decoded.
	Requirement

	node *yaml.Node // as it was read
}

// Requirement is what a check requires, by its parameters. Package verdict has all kinds.
type Requirement interface {
	// Validate checks the parameters against what the scenario declares.
	Validate(in *Scope)
	// DecidedBy is how long a drill must be recorded to decide the check.
	DecidedBy(t Times) Observation
}

// Needing is a requirement that needs something of a drill, or of its handler.
type Needing interface{ Needs() Needs }

// Needs is what a check needs of a drill, and of its handler.
type Needs struct {
	// Queue is why only a handler that reads a queue can be judged; empty if any can.
	Queue string
	// Messages reports whether messages are judged: a handler that reads metadata has none, and
	// is drilled without the check.
	Messages bool
	// APICalls reports whether the handler's calls to the API server are counted.
	APICalls bool
	// Memory reports whether the memory of the handler's pods is measured.
	Memory bool
	// NodeEvents reports whether events of the handler about nodes are read.
	NodeEvents bool
}

// CheckKind is a kind of check as the loader needs it.
type CheckKind struct {
	ID     string
	Decode Decoder
}

// Decoder reads the parameters of a check from YAML.
type Decoder func(file string, node *yaml.Node, where string) (Requirement, error)

// DecoderOf reads parameters of a type.
func DecoderOf[C Requirement]() Decoder {
	return func(file string, node *yaml.Node, where string) (Requirement, error) {
		var c C
		err := strict.DecodeNode(file, node, where, &c)
		return c, err
	}
}

// UnmarshalYAML keeps the check as it is written: the loader decodes it.
func (c *Check) UnmarshalYAML(node *yaml.Node) error {
	c.node = node
	return nil
}

// MarshalYAML writes a check as it is read.
func (c Check) MarshalYAML() (any, error) {
	if c.Requirement == nil {
		return c.node, nil
	}
	return map[string]any{c.Kind: c.Requirement}, nil
}

// raw is a check that is not decoded yet.
func raw(kind string, parameters map[string]any) (Check, error) {
	var node yaml.Node
	if err := node.Encode(map[string]any{kind: parameters}); err != nil {
		return Check{}, fmt.Errorf("write a check %s: %w", kind, err)
	}
	return Check{Kind: kind, node: &node}, nil
}

// decode reads a check by the kinds that there are. The field of an error is that of the check.
func (c Check) decode(file string, kinds []CheckKind) (out Check, problem string, err error) {
	node := c.node
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	allowed := make([]string, len(kinds))
	for i, k := range kinds {
		allowed[i] = k.ID
	}
	slices.Sort(allowed)
	if node.Kind != yaml.MappingNode {
		return c, "", &strict.Error{File: file, Line: node.Line, What: "checks must be a mapping with any of: " + strings.Join(allowed, ", ")}
	}
	var set []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		k := slices.IndexFunc(kinds, func(k CheckKind) bool { return k.ID == key.Value })
		if k < 0 {
			return c, "", &strict.Error{File: file, Line: key.Line, What: fmt.Sprintf("unknown field %q in checks%s", key.Value, strict.Among(key.Value, allowed))}
		}
		if value.Tag == "!!null" {
			return c, "", &strict.Error{File: file, Line: key.Line, What: key.Value + " has no value; write {} if it has no parameters"}
		}
		set = append(set, key.Value)
		requirement, err := kinds[k].Decode(file, value, key.Value)
		if err != nil {
			return c, "", err
		}
		out = Check{Kind: key.Value, Requirement: requirement, node: c.node}
	}
	switch len(set) {
	case 0:
		return c, "nothing is set; requires exactly one of: " + strings.Join(allowed, ", "), nil
	case 1:
		return out, "", nil
	}
	return c, fmt.Sprintf("%s are set; requires exactly one of: %s", strings.Join(set, " and "), strings.Join(allowed, ", ")), nil
}

// decodeChecks reads the checks of the scenario.
func (s *Scenario) decodeChecks(kinds []CheckKind, p *problems) error {
	var errs []error
	for i, check := range s.Checks {
		decoded, problem, err := check.decode(s.File, kinds)
		if problem != "" {
			p.add(fmt.Sprintf("checks[%d]", i), "%s", problem)
		}
		s.Checks[i], errs = decoded, append(errs, err)
	}
	return errors.Join(errs...)
}

// validateChecks checks the parameters of the checks.
func (s Scenario) validateChecks(in *scope, p *problems) {
	if len(s.Checks) == 0 {
		p.add("checks", "must not be empty: a drill that checks nothing cannot fail")
	}
	for i, check := range s.Checks {
		if check.Requirement != nil {
			check.Validate(&Scope{scope: in, where: fmt.Sprintf("checks[%d].%s", i, check.Kind), p: p})
		}
	}
}

func (c Check) needs() Needs {
	if needing, ok := c.Requirement.(Needing); ok {
		return needing.Needs()
	}
	return Needs{}
}

// needs returns what the checks need.
func (s Scenario) needs() []Needs {
	out := make([]Needs, len(s.Checks))
	for i, c := range s.Checks {
		out[i] = c.needs()
	}
	return out
}

// ReadsNodeEvents reports whether a check requires an event of the handler about a node.
func (s Scenario) ReadsNodeEvents() bool {
	return slices.ContainsFunc(s.needs(), func(n Needs) bool { return n.NodeEvents })
}

// NeedsWatch reports whether the scenario can only be played with a handler that watches the API
// server: its watches end, or it has no other reason to call.
func (s Scenario) NeedsWatch() bool {
	named := slices.ContainsFunc(stepsOf[Notice](s), func(n Notice) bool { return len(n.Nodes) > 0 })
	return slices.ContainsFunc(s.Faults(), func(f Fault) bool { return f.Type == history.WatchEnded }) ||
		slices.ContainsFunc(s.needs(), func(n Needs) bool { return n.APICalls && !named })
}

// Scope is what the parameters of a check can refer to, and where their problems are reported.
type Scope struct {
	*scope
	where string // the path of the check
	p     *problems
}

// Problem reports what is wrong with a parameter, or with the check itself if it names none.
func (s *Scope) Problem(parameter, format string, args ...any) {
	s.p.add(s.path(parameter), format, args...)
}

func (s *Scope) path(parameter string) string {
	if parameter == "" {
		return s.where
	}
	return s.where + "." + parameter
}

// OneOf reports a value that is not among the allowed ones.
func (s *Scope) OneOf(parameter, value string, allowed []string) {
	oneOf(s.p, s.path(parameter), value, allowed)
}

// ExactlyOne reports parameters, by their names, of which not exactly one is given.
func (s *Scope) ExactlyOne(names string, given ...bool) {
	if count(given...) != 1 {
		s.Problem("", "requires exactly one of: %s", names)
	}
}

// Positive reports a duration that is not more than 0.
func (s *Scope) Positive(parameter string, d strict.Duration) { s.p.positive(s.path(parameter), d) }

// AtLeast0 reports a negative number.
func (s *Scope) AtLeast0(parameter string, n int) { s.p.atLeast0(s.path(parameter), n) }

// Node checks the parameter node.
func (s *Scope) Node(name string) { s.node(s.where, name, s.p) }

// NoticeFor checks the parameters node and notice: the notice must name the node.
func (s *Scope) NoticeFor(node, notice string) {
	s.Node(node)
	s.names(notice, node, fmt.Sprintf("does not name node %q", node))
}

// names checks the parameter notice: it must name the node.
func (s *Scope) names(notice, node, otherwise string) {
	s.OneOf("notice", notice, s.Notices())
	if named, ok := s.Named[notice]; ok && notice != "" && !slices.Contains(named, node) {
		s.Problem("notice", "%q %s", notice, otherwise)
	}
}

// NoticeForTwo checks the same parameters of a check of two handlers.
func (s *Scope) NoticeForTwo(node, notice string) {
	s.NoticeFor(node, notice)
	if s.Scenario.OtherHandler == nil {
		s.Problem("", "requires a secondHandler")
	}
}

// PodsFor checks the parameters node, notice and pods.
func (s *Scope) PodsFor(node, notice, pods string) {
	s.NoticeFor(node, notice)
	s.OneOf("pods", pods, s.Scenario.Workload.Groups())
}

// BudgetFor checks the same parameters of a check of pods with a budget.
func (s *Scope) BudgetFor(node, notice, pods string) {
	s.NoticeFor(node, notice)
	s.OneOf("pods", pods, s.Scenario.Workload.budgeted())
}

// After checks the parameter after: a fault, a disturbance, or nothing.
func (s *Scope) After(name string) {
	if name != "" {
		s.OneOf("after", name, s.ending())
	}
}

// NeedsProbe reports a problem if the scenario has no probe.
func (s *Scope) NeedsProbe() { s.needsProbe(s.where, s.p) }

// NeedsApplication reports a problem if the scenario probes no application.
func (s *Scope) NeedsApplication(mode string) {
	switch probe := s.Scenario.Probe; {
	case probe == nil || probe.Application == nil:
		s.Problem("", "needs probe.application")
	case probe.Application.Transport == OverTCP && mode == string(history.Fixed):
		s.Problem("mode", "%s needs probe.application.transport %s", mode, OverHTTP)
	}
}

// APIFault checks a parameter: a fault on the API server of one of these types. It returns the fault.
func (s *Scope) APIFault(parameter, name string, types ...history.FaultType) (fault Fault, ok bool) {
	var allowed []string
	for _, f := range s.begun {
		if f.On != history.OnAPI || !slices.Contains(types, f.Type) {
			continue
		}
		allowed = append(allowed, f.Name)
		if f.Name == name {
			fault, ok = f, true
		}
	}
	s.OneOf(parameter, name, allowed)
	return fault, ok
}
