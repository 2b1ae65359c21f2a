package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// Allowance is how much longer than undisturbed a handler may take for what a check limits, in addition to the time that a
	// perturbation takes: a message that nobody deleted comes again after its visibility timeout (30 s), and a handler that
	// starts again, perhaps after a wait for its lease (15 s), looks for what it had begun.
	Allowance = 60 * time.Second
	// deadline is that of every notice: what EC2 gives.
	deadline = 120 * time.Second
)

// base is the scenario that is explored, as it is played: nothing is measured in it, and no instance is taken.
type base struct {
	scenarios.Scenario
	loader scenarios.Loader
	// dropped are the checks that it has without these, and that cannot be judged.
	dropped []string
	notice  scenarios.Notice // the first, which can be put again
}

// baseOf is the scenario without its prober, without what takes an instance at its deadline, and without the checks that need
// either. That no message is left at the end is required in any case.
func baseOf(s scenarios.Scenario, loader scenarios.Loader) (base, error) {
	b := base{Scenario: s, loader: loader}
	b.Probe, b.RealNodes, b.Counterpart = nil, false, ""
	b.Deadline = scenarios.Deadline{Fast: strict.Duration(deadline), Full: strict.Duration(deadline)}
	if !slices.Contains(b.Sets, scenarios.Fast) {
		b.Sets = append([]scenarios.Set{scenarios.Fast}, b.Sets...)
	}
	b.Steps, b.Checks = nil, nil
	for _, step := range s.Steps {
		if step.Reclaim != nil && step.Reclaim.At != "" {
			continue
		}
		b.Steps = append(b.Steps, step)
		if n := step.Notice; n != nil && len(n.Nodes) > 0 && b.notice.Name == "" {
			b.notice = *n
		}
	}
	if b.notice.Name == "" {
		return b, fmt.Errorf("%s puts no notice for a node: there is nothing to disturb", s.Name)
	}
	empty := verdict.Require(verdict.QueueEmpty{})
	all := s.Checks
	if !slices.ContainsFunc(all, func(c scenarios.Check) bool { return c.Kind == empty.Kind }) {
		all = append(slices.Clone(all), empty)
	}
	var errs []error
	for _, check := range all {
		one := b
		one.Checks = []scenarios.Check{check}
		if _, err := one.parse(s.Name, one.Scenario, 0); err != nil {
			b.dropped, errs = append(b.dropped, check.Kind), append(errs, err)
			continue
		}
		b.Checks = append(b.Checks, check)
	}
	if len(b.Checks) < 2 {
		return b, fmt.Errorf("%s has no check that can be judged without a prober and without instances that are taken: %w", s.Name, errors.Join(errs...))
	}
	return b, nil
}

// clean is the base for an undisturbed play.
func (b base) clean(n int) (scenarios.Scenario, error) {
	return b.parse(fmt.Sprintf("%s-undisturbed-%d", b.Name, n), b.Scenario, 0)
}

// vary is the base with perturbations. Each check with a time bound has so much more of it.
func (b base) vary(all []Perturbation) (scenarios.Scenario, error) {
	before, after, takes := steps(all)
	varied := b.Scenario
	last := 0
	for i, step := range varied.Steps {
		if step.Notice != nil {
			last = i + 1
		}
	}
	varied.Steps = slices.Concat(before, varied.Steps[:last], after, varied.Steps[last:])
	var slugs, words []string
	for _, p := range all {
		slugs, words = append(slugs, p.slug()), append(words, p.String())
		if slices.ContainsFunc(p.then, func(s scenarios.Step) bool { return s.Notice != nil }) {
			varied.Checks = append(slices.Clone(varied.Checks), verdict.Require(verdict.Deleted{Of: again, Within: strict.Duration(deletedWithin)}))
		}
	}
	varied.Description = "Disturbed: " + strings.Join(words, "; ") + "."
	return b.parse(strings.Join(slugs, "-and-"), varied, takes+Allowance)
}

// deletedWithin is how soon the message of a second notice must be deleted, undisturbed.
const deletedWithin = 20 * time.Second

// parse reads a variation as if it came from a file, with more time for each check that has a bound.
func (b base) parse(name string, s scenarios.Scenario, more time.Duration) (scenarios.Scenario, error) {
	s.Name = name
	text, err := yaml.Marshal(s)
	if err != nil {
		return s, fmt.Errorf("write %s: %w", name, err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return s, fmt.Errorf("read %s: %w", name, err)
	}
	checks, _ := document["checks"].([]any)
	for _, check := range checks {
		extend(check, more)
	}
	if text, err = yaml.Marshal(document); err != nil {
		return s, fmt.Errorf("write %s: %w", name, err)
	}
	return b.loader.Parse(name+".yaml", text)
}

// extend adds to the time bound of a check, if it has one.
func extend(check any, more time.Duration) {
	kinds, _ := check.(map[string]any)
	for _, value := range kinds {
		parameters, _ := value.(map[string]any)
		text, _ := parameters["within"].(string)
		within, err := time.ParseDuration(text)
		if err == nil && within > 0 {
			parameters["within"] = min(within+more, deadline).String()
		}
	}
}

// watchedIn are the resources that a handler watches in any of these plays, as in kubectl.
func watchedIn(plays []*story.Story) (resources []string) {
	for _, st := range plays {
		for _, e := range st.AllOf(history.APIWatching) {
			if name := history.KubectlName(e.Resource); !slices.Contains(resources, name) {
				resources = append(resources, name)
			}
		}
	}
	return resources
}
