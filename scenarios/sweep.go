package scenarios

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// SweepKind is the kind in the header of a matrix file.
const SweepKind = "Sweep"

// Sweep is a matrix of CoreDNS settings, to find those that lose no query. Each
// combination is drilled several times. A list that is left out has one element, the
// setting of the base scenario.
type Sweep struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is the file's name without .yaml.
	Name string `yaml:"name"`
	// Base is the scenario that is drilled with each combination: the name of a built-in
	// one, or a path that ends in .yaml, relative to this file. It must have a probe.
	Base string `yaml:"base"`
	// Set is the set whose deadline applies. The deadline is extended if it would end
	// before lameduck does.
	Set Set `yaml:"set"`
	// Mode selects the queries that count: from fresh ports, from fixed ports, or all.
	Mode string `yaml:"mode"`
	// ExceptConntrack does not count queries that connection tracking lost: those in
	// flight when kube-proxy removed their entry, and those for which the kernel could
	// not insert one. No CoreDNS setting prevents these losses.
	ExceptConntrack bool `yaml:"exceptConntrack,omitempty"`
	// Repeats is how many times each combination is drilled, 1 to 100.
	Repeats int `yaml:"repeats"`
	// Confidence is the confidence level of the upper bounds, at least 0.5 and less than
	// 1. There is a bound on the loss rate of each combination, and one on the share of
	// its drills that lose a query.
	Confidence float64 `yaml:"confidence"`
	// LossRate is the highest bound on the loss rate of a safe combination, as a share of
	// the queries: more than 0 and less than 1.
	LossRate float64 `yaml:"lossRate"`

	// Lameduck is a list of values, in whole seconds.
	Lameduck []strict.Duration `yaml:"lameduck,omitempty"`
	// Readiness is a list of readiness probes.
	Readiness []coredns.Readiness `yaml:"readiness,omitempty"`
	// GracePeriod is a list of values, in whole seconds. A combination is only possible if
	// its grace period is longer than its lameduck.
	GracePeriod []strict.Duration `yaml:"gracePeriod,omitempty"`
	// Replicas is a list of values, 1 to 10.
	Replicas []int `yaml:"replicas,omitempty"`
	// Placement is a list of placements of the pods.
	Placement []coredns.Placement `yaml:"placement,omitempty"`

	base   Scenario
	loader Loader
}

// Cell is one combination of the settings.
type Cell struct {
	coredns.Settings
	// Impossible is why it cannot be drilled, or empty.
	Impossible string
}

//go:embed sweeps
var sweeps embed.FS

// BuiltInSweep returns the built-in matrix of that name.
func (l Loader) BuiltInSweep(name string) (Sweep, error) {
	file := "sweeps/" + name + ".yaml"
	data, err := sweeps.ReadFile(file)
	if err != nil {
		return Sweep{}, fmt.Errorf("no matrix is named %q%s, or the path of a file such as ./my-matrix.yaml", name, strict.Among(name, Sweeps()))
	}
	return l.ParseSweep(file, data)
}

// Sweeps are the names of the built-in matrices.
func Sweeps() (names []string) {
	found, _ := fs.Glob(sweeps, "sweeps/*.yaml") // the pattern is correct
	for _, file := range found {
		names = append(names, strings.TrimSuffix(path.Base(file), ".yaml"))
	}
	return names
}

// LoadSweep reads and validates one matrix: a built-in one by its name, or a file by its path.
func (l Loader) LoadSweep(file string) (Sweep, error) {
	if !strings.ContainsAny(file, `/\.`) {
		return l.BuiltInSweep(file)
	}
	data, err := files.ReadFile(file, mostScenario)
	if err != nil {
		return Sweep{}, fmt.Errorf("read matrix: %w", err)
	}
	return l.ParseSweep(filepath.ToSlash(file), data)
}

// ParseSweep reads and validates one matrix. Errors name the file, the line and what is
// allowed.
func (l Loader) ParseSweep(file string, data []byte) (Sweep, error) {
	s := Sweep{loader: l}
	unread := strict.Decode(file, data, &s)
	if unread != nil && s.Name == "" { // not even that could be read
		return Sweep{}, unread
	}
	p := s.validate(strings.TrimSuffix(path.Base(file), ".yaml"))
	if err := s.loadBase(path.Dir(file)); err != nil {
		p.add("base", "%v", err)
	} else if s.base.Probe == nil {
		p.add("base", "%s has no probe: no queries would be counted", s.Base)
	} else if s.base.Probe.Transport == Both {
		p.add("base", "%s probes over UDP and TCP: a matrix counts the queries of one transport", s.Base)
	}
	if unread != nil {
		p = p.besides(unread, data)
	}
	if err := errors.Join(unread, p.in(file, data)); err != nil {
		return Sweep{}, err
	}
	s.fillFromBase()
	return s, nil
}

func (s *Sweep) loadBase(dir string) error {
	name := s.Base
	if strings.HasSuffix(name, ".yaml") && !filepath.IsAbs(name) {
		name = path.Join(dir, name)
	}
	found, err := s.loader.Select(Full, []string{name})
	if err != nil {
		return err
	}
	s.base = found[0]
	return nil
}

// Check validates a matrix whose fields were changed after it was read.
func (s Sweep) Check() error {
	var errs []error
	for _, p := range s.validate(s.Name) {
		errs = append(errs, fmt.Errorf("matrix %s: %s: %s", s.Name, p.field, p.what))
	}
	return errors.Join(errs...)
}

func (s Sweep) validate(fileName string) problems {
	var p problems
	oneOf(&p, "apiVersion", s.APIVersion, []string{APIVersion})
	oneOf(&p, "kind", s.Kind, []string{SweepKind})
	if s.Name != fileName {
		p.add("name", "%q must be the file's name, %q", s.Name, fileName)
	}
	oneOf(&p, "set", s.Set, Sets())
	oneOf(&p, "mode", s.Mode, ProbeModes())
	if s.Repeats < 1 || s.Repeats > 100 {
		p.add("repeats", "%d is not within 1 to 100", s.Repeats)
	}
	// Written so that NaN is refused.
	if !(s.Confidence >= 0.5 && s.Confidence < 1) {
		p.add("confidence", "%v is not within 0.5 to less than 1", s.Confidence)
	}
	if !(s.LossRate > 0 && s.LossRate < 1) {
		p.add("lossRate", "%v is not more than 0 and less than 1: no number of answered queries proves a rate of 0", s.LossRate)
	}
	for i, d := range s.Lameduck {
		if d.D()%time.Second != 0 {
			p.add(fmt.Sprintf("lameduck[%d]", i), "%s is not a whole number of seconds", d.D())
		}
	}
	for i, r := range s.Readiness {
		validateReadiness(fmt.Sprintf("readiness[%d]", i), r, &p)
	}
	for i, g := range s.GracePeriod {
		if g.D() < time.Second || g.D()%time.Second != 0 {
			p.add(fmt.Sprintf("gracePeriod[%d]", i), "%s is not a whole number of seconds, at least 1s", g.D())
		}
	}
	for i, n := range s.Replicas {
		validateReplicas(fmt.Sprintf("replicas[%d]", i), n, &p)
	}
	for i, of := range s.Placement {
		oneOf(&p, fmt.Sprintf("placement[%d]", i), of, coredns.Placements())
	}
	return p
}

func (s *Sweep) fillFromBase() {
	b := s.base.CoreDNS
	s.Lameduck = orElse(s.Lameduck, b.Lameduck)
	s.Readiness = orElse(s.Readiness, b.Readiness)
	s.GracePeriod = orElse(s.GracePeriod, b.GracePeriod)
	s.Replicas = orElse(s.Replicas, b.Replicas)
	s.Placement = orElse(s.Placement, b.Placement)
}

// orElse returns the list, or the one element if it is empty.
func orElse[T any](list []T, one T) []T {
	if len(list) == 0 {
		return []T{one}
	}
	return list
}

// BaseDigest identifies the text of the base scenario.
func (s Sweep) BaseDigest() string { return s.base.Digest() }

// Cells returns all combinations, ordered by lameduck, shortest first, then by
// readiness probe, slowest first, then by grace period and by replicas.
func (s Sweep) Cells() []Cell {
	var out []Cell
	for _, placement := range s.Placement {
		for _, replicas := range s.Replicas {
			for _, grace := range s.GracePeriod {
				for _, readiness := range s.Readiness {
					for _, lameduck := range s.Lameduck {
						c := Cell{Settings: s.base.CoreDNS}
						c.Placement, c.Replicas, c.Lameduck, c.Readiness, c.GracePeriod = placement, replicas, lameduck, readiness, grace
						c.Impossible = s.impossible(c.Settings)
						out = append(out, c)
					}
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Cell) int {
		return cmp.Or(
			cmp.Compare(a.Lameduck, b.Lameduck), cmp.Compare(b.Readiness.Unready(), a.Readiness.Unready()),
			cmp.Compare(a.GracePeriod, b.GracePeriod), cmp.Compare(a.Replicas, b.Replicas),
		)
	})
	return slices.CompactFunc(out, func(a, b Cell) bool { return a.Equal(b.Settings) })
}

// afterLameduck is how long the instance stays at least when lameduck has ended, so
// that the exit of the pod and what follows are measured.
const afterLameduck = 15 * time.Second

// limited reports whether an instance is taken at a deadline.
func (s Sweep) limited() bool { return s.base.Deadline.Full > 0 }

// impossible returns why the base cannot be drilled with these settings, or "".
func (s Sweep) impossible(c coredns.Settings) string {
	if c.GracePeriod <= c.PreStop+c.Lameduck {
		before := ""
		if c.PreStop > 0 {
			before = fmt.Sprintf(", after a preStop of %s,", c.PreStop.D())
		}
		return fmt.Sprintf("the grace period %s ends before lameduck %s%s does", c.GracePeriod.D(), c.Lameduck.D(), before)
	}
	if ends := c.PreStop.D() + c.Lameduck.D() + afterLameduck; s.limited() && ends > s.base.Deadline.Full.D() {
		return fmt.Sprintf("a pod takes up to %s to terminate, and the instance is gone after %s", ends, s.base.Deadline.Full.D())
	}
	for name, pick := range s.base.Nodes {
		if pick.Runs == "coredns" && c.Placement != coredns.Spread && c.Placement != coredns.Launched && pick.Capacity != string(c.Placement) {
			return fmt.Sprintf("node %s must be %s and run a CoreDNS pod, which placement %s does not ensure", name, pick.Capacity, c.Placement)
		}
	}
	return ""
}

// Name identifies the cell in scenarios and reports.
func (c Cell) Name() string {
	return fmt.Sprintf("lameduck-%s-readiness-%sx%d-grace-%s-%d-on-%s", c.Lameduck.D(), c.Readiness.Period.D(), c.Readiness.FailureThreshold, c.GracePeriod.D(), c.Replicas, c.Placement)
}

// Scenario returns the base with the settings of the cell, for a repeat counted from 1.
// Its only check is whether a query was lost. The fast deadline is extended if it would
// end before lameduck does.
func (s Sweep) Scenario(c Cell, repeat int) (Scenario, error) {
	out := s.base
	out.Name = fmt.Sprintf("%s-%d", c.Name(), repeat)
	out.CoreDNS = c.Settings
	if s.limited() {
		out.Deadline.Fast = max(out.Deadline.Fast, c.PreStop+c.Lameduck+strict.Duration(afterLameduck))
	}
	parameters := map[string]any{"of": DNS, "mode": s.Mode, "max": 0}
	if s.ExceptConntrack {
		parameters["exceptConntrack"] = true
	}
	return s.loader.lossesOnly(out, parameters)
}

// Measured is a scenario to measure what is lost with these settings of CoreDNS, whatever the scenario requires: its
// only check fails if any query is.
func (l Loader) Measured(s Scenario, name string, settings coredns.Settings) (Scenario, error) {
	s.Name, s.CoreDNS = name, settings
	return l.lossesOnly(s, map[string]any{"of": DNS, "mode": "all", "max": 0})
}

// lossesOnly writes a scenario with only a check of losses, and reads it again. It has all values, so that a platform
// sets none.
func (l Loader) lossesOnly(s Scenario, parameters map[string]any) (Scenario, error) {
	lost, err := raw("losses", parameters)
	if err != nil {
		return Scenario{}, err
	}
	s.Checks = []Check{lost}
	text, err := yaml.Marshal(s)
	if err != nil {
		return Scenario{}, fmt.Errorf("write scenario %s: %w", s.Name, err)
	}
	return Loader{Kinds: l.Kinds}.Parse(s.Name+".yaml", text)
}
