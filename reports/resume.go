package reports

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// ErrOtherEnvironment reports that a run cannot go on in another environment than it began in.
var ErrOtherEnvironment = errors.New("the environment is another one than that of the earlier drills")

// productKey is the entry of Report.Environment for the build of the product.
const productKey = "spotdrill-image"

// Resume is the report of a run that ended before its last drill, for a session that goes on with
// it: what was judged or skipped. Left are the other entries, in their order; those that never
// began are missing if the run did not get so far as to write a report. Errors: those of Judge.
func Resume(dir string) (r *Report, left []Entry, err error) {
	was, err := Judge(dir)
	if err != nil {
		return nil, nil, err
	}
	r = sameRun(dir, was)
	for _, e := range was.Results {
		if e.Outcome.Known() == verdict.Unknown {
			left = append(left, e)
			continue
		}
		r.Add(e)
	}
	r.Timings = was.Timings
	r.Timings.Scenarios = slices.DeleteFunc(slices.Clone(was.Timings.Scenarios), func(t ScenarioTiming) bool { return !r.Has(t.Scenario) })
	return r, left, nil
}

// Has reports whether the report has an entry for the scenario.
func (r *Report) Has(scenario string) bool {
	return slices.ContainsFunc(r.Results, func(e Entry) bool { return e.Scenario == scenario })
}

// Folder is where the run's files are.
func (r *Report) Folder() Folder { return r.folder }

// PlayIn notes the environment of the drills that follow. It must be that of the earlier ones, but
// for the build of the product: the report then names all builds. Errors: ErrOtherEnvironment.
func (r *Report) PlayIn(environment map[string]string) error {
	if len(r.Results) == 0 {
		r.Environment = environment
		return nil
	}
	return r.joinEnvironment(environment)
}

// joinEnvironment is PlayIn for a report that has an environment.
func (r *Report) joinEnvironment(environment map[string]string) error {
	var differ []error
	for _, key := range slices.Sorted(maps.Keys(environment)) {
		was, is := r.Environment[key], environment[key]
		switch {
		case was == is:
		case key == productKey:
			r.Environment[key] = was + ", then " + is
		default:
			differ = append(differ, fmt.Errorf("%s was %q, and is %q", key, was, is))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Environment)) {
		if _, ok := environment[key]; !ok {
			differ = append(differ, fmt.Errorf("%s was %q, and is not known", key, r.Environment[key]))
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("%w: %w", ErrOtherEnvironment, errors.Join(differ...))
	}
	return nil
}
