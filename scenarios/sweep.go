package scenarios

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// SweepKind is the kind of a matrix file.
const SweepKind = "Sweep"

// Sweep is a matrix of DNS settings, each of which is drilled several times: which
// of them lose no query? What a list leaves out is as in the base scenario.
type Sweep struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is the file's name without .yaml.
	Name string `yaml:"name"`
	// Base is the scenario that is played with each of the settings: a name of the
	// catalogue, or a path beside this file that ends in .yaml. It must have a probe.
	Base string `yaml:"base"`
	// Set is whose deadline is taken; longer where it would cut lameduck short.
	Set Set `yaml:"set"`
	// Mode is which queries count.
	Mode string `yaml:"mode"`
	// ExceptConntrack does not count what connection tracking itself lost: a query under
	// way at a pod when kube-proxy removed its entry, or whose entry the kernel could not
	// insert. No setting of CoreDNS spares these.
	ExceptConntrack bool `yaml:"exceptConntrack,omitempty"`
	// Repeats is how often each cell is drilled, 1 to 100.
	Repeats int `yaml:"repeats"`
	// Confidence is that of the upper bounds of a cell's loss rate and of the share of
	// its drills that lose any, 0.5 to less than 1.
	Confidence float64 `yaml:"confidence"`
	// LossRate is what the bound of the loss rate may be in a safe cell, as a share of
	// the queries: more than 0, less than 1.
	LossRate float64 `yaml:"lossRate"`

	// Lameduck in whole seconds.
	Lameduck  []strict.Duration   `yaml:"lameduck,omitempty"`
	Readiness []coredns.Readiness `yaml:"readiness,omitempty"`
	// GracePeriod in whole seconds, longer than the lameduck of the cell.
	GracePeriod []strict.Duration `yaml:"gracePeriod,omitempty"`
	// Replicas are 1 to 10. A cell with one is told to be impossible and not drilled: a
	// single pod leaves none to be the control.
	Replicas []int `yaml:"replicas,omitempty"`
	// Placement is on which capacity the pods run.
	Placement []coredns.Placement `yaml:"placement,omitempty"`

	base Scenario
}

// Cell is one combination of the settings.
type Cell struct {
	coredns.Settings
	// Impossible says why it cannot be drilled, or is empty.
	Impossible string
}

//go:embed sweeps
var sweeps embed.FS

// BuiltInSweep is the matrix of that name that comes with the product.
func BuiltInSweep(name string) (Sweep, error) {
	file := "sweeps/" + name + ".yaml"
	data, err := sweeps.ReadFile(file)
	if err != nil {
		return Sweep{}, fmt.Errorf("read the matrix %s: %w", name, err)
	}
	return ParseSweep(file, data)
}

// LoadSweep reads and validates one matrix file.
func LoadSweep(file string) (Sweep, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Sweep{}, fmt.Errorf("read matrix: %w", err)
	}
	return ParseSweep(filepath.ToSlash(file), data)
}

// ParseSweep reads one matrix. Errors name the file, the line, and what would be
// allowed.
func ParseSweep(file string, data []byte) (Sweep, error) {
	var s Sweep
	if err := strict.Decode(file, data, &s); err != nil {
		return Sweep{}, err
	}
	p := s.validate(strings.TrimSuffix(path.Base(file), ".yaml"))
	if err := s.loadBase(path.Dir(file)); err != nil {
		p.add("base", "%v", err)
	} else if s.base.Probe == nil {
		p.add("base", "%s has no probe: there would be nothing to count", s.Base)
	}
	if err := p.in(file, data); err != nil {
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
	found, err := Select(Full, []string{name})
	if err != nil {
		return err
	}
	s.base = found[0]
	return nil
}

// Check is an error that tells all that is wrong with a matrix whose fields were
// changed after it was read.
func (s Sweep) Check() error {
	var errs []error
	for _, p := range s.validate(s.Name) {
		errs = append(errs, fmt.Errorf("matrix %s: %s: %s", s.Name, p.field, p.what))
	}
	return errors.Join(errs...)
}

func (s Sweep) validate(fileName string) problems {
	var p problems
	p.oneOf("apiVersion", s.APIVersion, []string{APIVersion})
	p.oneOf("kind", s.Kind, []string{SweepKind})
	if s.Name != fileName {
		p.add("name", "%q must be the file's name, %q", s.Name, fileName)
	}
	p.oneOf("set", string(s.Set), []string{string(Fast), string(Full)})
	p.oneOf("mode", s.Mode, []string{"all", "fixed", "fresh"})
	if s.Repeats < 1 || s.Repeats > 100 {
		p.add("repeats", "%d is not within 1 to 100", s.Repeats)
	}
	// NaN is within nothing.
	if !(s.Confidence >= 0.5 && s.Confidence < 1) {
		p.add("confidence", "%v is not within 0.5 and less than 1", s.Confidence)
	}
	if !(s.LossRate > 0 && s.LossRate < 1) {
		p.add("lossRate", "%v is not more than 0 and less than 1: no number of answered queries shows a rate of 0", s.LossRate)
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
		validatePlacement(fmt.Sprintf("placement[%d]", i), of, &p)
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

// orElse is the list, or the one element where it is empty.
func orElse[T any](list []T, one T) []T {
	if len(list) == 0 {
		return []T{one}
	}
	return list
}

// BaseDigest identifies the base scenario's text.
func (s Sweep) BaseDigest() string { return s.base.Digest() }

// Cells are all combinations, the smallest first: a short lameduck before a long
// one, then a slow readiness probe before a quick one, then a short grace period
// and few replicas.
func (s Sweep) Cells() []Cell {
	var out []Cell
	for _, placement := range s.Placement {
		for _, replicas := range s.Replicas {
			for _, grace := range s.GracePeriod {
				for _, readiness := range s.Readiness {
					for _, lameduck := range s.Lameduck {
						c := Cell{Settings: coredns.Settings{Placement: placement, Replicas: replicas, Lameduck: lameduck, Readiness: readiness, GracePeriod: grace}}
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
	return slices.CompactFunc(out, func(a, b Cell) bool { return a.Settings == b.Settings })
}

// afterLameduck is how long after lameduck the instance stays at least: a pod that
// ends is to be measured to its end, and what follows as well.
const afterLameduck = 15 * time.Second

// impossible says why the base cannot be played with these settings.
func (s Sweep) impossible(c coredns.Settings) string {
	if c.GracePeriod <= c.Lameduck {
		return fmt.Sprintf("the grace period %s ends before lameduck %s does", c.GracePeriod.D(), c.Lameduck.D())
	}
	if ends := c.Lameduck.D() + afterLameduck; ends > s.base.Deadline.Full.D() {
		return fmt.Sprintf("a pod takes up to %s to end, and the instance goes after %s", ends, s.base.Deadline.Full.D())
	}
	if c.Replicas < 2 {
		return "a single pod leaves none to be the control"
	}
	for name, pick := range s.base.Nodes {
		if pick.Runs == "coredns" && c.Placement != coredns.Spread && pick.Capacity != string(c.Placement) {
			return fmt.Sprintf("node %s is to be %s with a CoreDNS pod, which placement %s does not see to", name, pick.Capacity, c.Placement)
		}
	}
	return ""
}

// Name is the cell's in scenarios and reports.
func (c Cell) Name() string {
	return fmt.Sprintf("lameduck-%s-readiness-%sx%d-grace-%s-%d-on-%s", c.Lameduck.D(), c.Readiness.Period.D(), c.Readiness.FailureThreshold, c.GracePeriod.D(), c.Replicas, c.Placement)
}

// Scenario is the base with the cell's settings, for the repeat that is counted
// from 1. It asks one thing alone: was a query lost? Where the fast set's deadline
// would cut lameduck short, which that of life does not, it is longer.
func (s Sweep) Scenario(c Cell, repeat int) (Scenario, error) {
	out := s.base
	out.Name = fmt.Sprintf("%s-%d", c.Name(), repeat)
	out.CoreDNS = c.Settings
	out.Deadline.Fast = max(out.Deadline.Fast, c.Lameduck+strict.Duration(afterLameduck))
	out.Checks = []Check{{DNSLost: &DNSLost{Mode: s.Mode, ExceptConntrack: s.ExceptConntrack}}}
	text, err := yaml.Marshal(out)
	if err != nil {
		return Scenario{}, fmt.Errorf("write scenario %s: %w", out.Name, err)
	}
	return Parse(out.Name+".yaml", text)
}
