package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

//go:embed catalogue
var catalogue embed.FS

// Catalogue loads every scenario of the product, sorted by profile and name.
// Any invalid file is an error, all of them are reported.
func Catalogue() ([]Scenario, error) {
	var out []Scenario
	var errs []error
	err := fs.WalkDir(catalogue, "catalogue", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := catalogue.ReadFile(file)
		if err != nil {
			return err
		}
		s, err := Parse(file, data)
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		out = append(out, s)
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("load the catalogue: %w", err)
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := slices.Index(Profiles(), out[i].Profile), slices.Index(Profiles(), out[j].Profile)
		if a != b {
			return a < b
		}
		return out[i].Name < out[j].Name
	})
	return out, nil
}

// InCatalogue is true for the name of a scenario of the product.
func InCatalogue(name string) bool {
	found, err := fs.Glob(catalogue, "catalogue/*/"+name+".yaml")
	return err == nil && len(found) > 0
}

// Select picks scenarios of the catalogue by set, or by name where names are
// given. A name that does not exist is an error that lists those that do; a
// name that ends in .yaml is a file of the user's own.
func Select(set Set, names []string) ([]Scenario, error) {
	if set != Fast && set != Full {
		return nil, fmt.Errorf("unknown set %q; allowed: %s, %s", set, Fast, Full)
	}
	all, err := Catalogue()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s Scenario) bool { return !slices.Contains(s.Sets, set) }), nil
	}
	var out []Scenario
	for _, name := range names {
		if strings.HasSuffix(name, ".yaml") {
			s, err := LoadFile(name)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
			continue
		}
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			known := make([]string, len(all))
			for i, s := range all {
				known[i] = s.Name
			}
			return nil, fmt.Errorf("unknown scenario %q; the catalogue has:\n  %s\n(a path that ends in .yaml names a file of your own)", name, strings.Join(known, "\n  "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// LoadFile reads and validates one scenario file.
func LoadFile(file string) (Scenario, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(filepath.ToSlash(file), data)
}

// Parse reads one scenario. Errors name the file, the line where there is one,
// and what would be allowed.
func Parse(file string, data []byte) (Scenario, error) {
	var s Scenario
	if err := strict.Decode(file, data, &s); err != nil {
		return Scenario{}, err
	}
	s.File, s.Text = file, data
	if s.Handler == "" {
		s.Handler = HandlerUnderTest
	}
	if s.Probe != nil {
		s.Probe.fillDefaults()
	}
	if err := s.validate(strings.TrimSuffix(path.Base(file), ".yaml")).in(file, data); err != nil {
		return Scenario{}, err
	}
	return s, nil
}

func (p *Probe) fillDefaults() {
	d := DefaultProbe()
	fill := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	fill(&p.Fresh, d.Fresh)
	fill(&p.Fixed, d.Fixed)
	fill(&p.FixedPorts, d.FixedPorts)
	fill(&p.Probers, d.Probers)
	fill(&p.Control, d.Control)
	if p.Name == "" {
		p.Name = d.Name
	}
	if p.Transport == "" {
		p.Transport = d.Transport
	}
}

// Expected is a lower bound of the time that the scenario asks for: waits that
// may end early count in full only where the scenario goes to its deadline.
func (s Scenario) Expected(set Set) time.Duration {
	total := s.Settle.D()
	byDeadline := time.Duration(0) // what waits for a time after a notice
	for _, step := range s.Steps {
		switch {
		case step.Disrupt != nil:
			total += step.Disrupt.After.D()
		case step.Reclaim != nil && step.Reclaim.At != "":
			byDeadline = max(byDeadline, s.Deadline.For(set))
		case step.Budget != nil:
			byDeadline = max(byDeadline, step.Budget.After.D())
		}
	}
	total += byDeadline
	for _, step := range s.Steps {
		if step.Await != nil && step.Await.Answering > 0 {
			total += 60 * time.Second // node-monitor-grace-period is 50 s since Kubernetes 1.32
		}
		if step.Await != nil {
			f, _ := s.fault(step.Await.Ended)
			total += f.For.D()
		}
	}
	return total
}
