package reports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ErrNotOneRun reports that reports are not the shards of one run.
var ErrNotOneRun = errors.New("these are not the shards of one run")

// Merge joins the reports of the shards of a run into one, as if one machine had played it. It makes a
// folder for it in root, with copies of the histories, and writes nothing else. The histories are
// judged again. Times are sums over the shards. After an error, or the end of the context, the folder
// is removed. Errors: ErrNotOneRun, ErrOtherEnvironment, those of Judge.
func Merge(ctx context.Context, root string, dirs []string) (*Report, error) {
	shards := make([]*Report, len(dirs))
	for i, dir := range dirs {
		var err error
		if shards[i], err = Judge(ctx, dir); err != nil {
			return nil, err
		}
	}
	if err := oneRun(shards); err != nil {
		return nil, err
	}
	first := slices.MinFunc(shards, func(a, b *Report) int { return a.Started.Compare(b.Started) })
	merged := New(Folder{}, first.Handler, first.Set, maps.Clone(first.Environment))
	merged.Other, merged.Catalogue = first.Other, first.Catalogue
	var entries []Entry
	times := map[string]ScenarioTiming{}
	for _, shard := range shards {
		entries = append(entries, shard.Results...)
		if err := merged.joinEnvironment(shard.Environment); err != nil {
			return nil, fmt.Errorf("shard %s: %w", shard.Shard, err)
		}
		merged.Timings.add(shard.Timings)
		if shard.EndedEarly != "" {
			merged.EndedEarly = strings.TrimPrefix(fmt.Sprintf("%s; shard %s: %s", merged.EndedEarly, shard.Shard, shard.EndedEarly), "; ")
		}
		for _, t := range shard.Timings.Scenarios {
			times[t.Scenario] = t
		}
	}
	inOrder, err := order(first.Set)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return inOrder(a) - inOrder(b) })
	for _, e := range entries {
		if merged.Has(e.Scenario) {
			return nil, fmt.Errorf("%w: %s is in two of them", ErrNotOneRun, e.Scenario)
		}
		merged.Add(e)
	}
	for i, t := range merged.Timings.Scenarios {
		merged.Timings.Scenarios[i] = times[t.Scenario]
	}
	if merged.folder, err = NewFolder(root, first.Started.Local()); err != nil {
		return nil, err
	}
	merged.Run, merged.Started = merged.folder.Run, first.Started
	if err := copyHistories(ctx, merged.folder.Path, dirs); err != nil {
		return nil, errors.Join(err, os.RemoveAll(merged.folder.Path))
	}
	return merged, nil
}

// oneRun reports why the reports are not all the shards of one run.
func oneRun(shards []*Report) error {
	var there []int
	for _, s := range shards {
		shard, err := scenarios.ParseShard(s.Shard)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s: %w", ErrNotOneRun, s.folder.Path, err)
		case shard.Count == 0:
			return fmt.Errorf("%w: %s is the report of a whole run", ErrNotOneRun, s.folder.Path)
		case shard.Count != len(shards):
			return fmt.Errorf("%w: %s is shard %s, and these are %s", ErrNotOneRun, s.folder.Path, shard, history.Count(len(shards), "report"))
		case slices.Contains(there, shard.Index):
			return fmt.Errorf("%w: %s is shard %s, and so is another", ErrNotOneRun, s.folder.Path, shard)
		}
		there = append(there, shard.Index)
		for what, differs := range map[string]bool{
			"catalogue": s.Catalogue != shards[0].Catalogue,
			"set":       s.Set != shards[0].Set, "handler": s.Handler != shards[0].Handler,
			"second handler":          !reflect.DeepEqual(s.Other, shards[0].Other),
			"tolerances of the judge": !maps.Equal(s.Tolerances, shards[0].Tolerances),
		} {
			if differs {
				return fmt.Errorf("%w: the %s of shard %s is another one than that of shard %s", ErrNotOneRun, what, s.Shard, shards[0].Shard)
			}
		}
	}
	return nil
}

// order returns the place of an entry in a run of the set. What is not in the catalogue comes last.
func order(set scenarios.Set) (func(Entry) int, error) {
	all, err := scenarios.InSet(set)
	return func(e Entry) int {
		if i := slices.Index(all, e.Scenario); i >= 0 {
			return i
		}
		return len(all)
	}, err
}

// add adds the times of a shard.
func (t *Timings) add(shard Timings) {
	t.Setup += shard.Setup
	t.Drills += shard.Drills
	t.Took(shard.Phases)
	t.Ended(time.Duration(t.Drills))
}

// copyHistories copies what the runs' folders have next to their reports.
func copyHistories(ctx context.Context, to string, dirs []string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("copy histories: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			// Several shards have a folder of the second repeats.
			err := os.MkdirAll(filepath.Join(to, e.Name()), 0o755)
			if err == nil {
				err = files.Copy(ctx, filepath.Join(to, e.Name()), filepath.Join(dir, e.Name()))
			}
			if errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("two shards have %s: %w", e.Name(), err)
			}
			if err != nil {
				return fmt.Errorf("copy histories: %w", err)
			}
		}
	}
	return nil
}

// ErrOtherEnvironment reports that a run cannot go on in another environment than it began in.
var ErrOtherEnvironment = errors.New("the environment is another one than that of the earlier drills")

// productKey is the entry of Report.Environment for the build of the product.
const productKey = "spotdrill-image"

// Resume is the report of a run that ended before its last drill, for a session that goes on with
// it: what was judged or skipped. Left are the other entries, in their order; those that never
// began are missing if the run did not get so far as to write a report. Errors: those of Judge.
func Resume(ctx context.Context, dir string) (r *Report, left []Entry, err error) {
	was, err := Judge(ctx, dir)
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
