package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ErrNotComparable reports that nothing in a report is wrong by itself, but that another build played
// it: this one does not know the scenarios that the set had then.
var ErrNotComparable = errors.New("cannot be compared with the catalogue")

// Verify reports what is wrong with a YAML report, one error for each finding: what
// is malformed, what contradicts the rest, what is missing to repeat the run, and what differs from the
// built-in scenarios of the set. Unless withoutHistories is set, it also judges the histories next to
// the report again and requires the same verdicts. It returns what a report without findings covers, in
// a sentence. Errors: ErrNotComparable if it is the only finding; that of the context, if it ends.
func Verify(ctx context.Context, file string, withoutHistories bool) (covers string, err error) {
	r, err := Load(file)
	if err != nil {
		return "", err
	}
	v := verification{report: r}
	v.head()
	v.environment()
	v.counts()
	for _, e := range r.Results {
		v.entry(e)
	}
	if !withoutHistories {
		if err := v.histories(ctx); err != nil {
			return "", err
		}
	}
	compared := v.catalogue()
	if len(v.found) > 0 {
		return "", errors.Join(v.found...)
	}
	covers = r.covers()
	if withoutHistories {
		covers += "; its verdicts were not judged again"
	}
	return covers, compared
}

// verification gathers what is wrong with a report.
type verification struct {
	report *Report
	found  []error
}

// catalogue compares the report with the built-in scenarios of its set. The error is
// ErrNotComparable, or why the catalogue cannot be read.
func (v *verification) catalogue() error {
	r, ours := v.report, scenarios.CatalogueDigest()
	builtIn := scenarios.Names()
	loader := verdict.Scenarios()
	if name := r.Environment[history.PlatformKey]; name != "" {
		var err error
		if loader.Platform, err = scenarios.PlatformNamed(name); err != nil {
			return fmt.Errorf("%w: %w", ErrNotComparable, err)
		}
	}
	var other []string
	for _, e := range r.Results {
		if !slices.Contains(builtIn, e.Scenario) { // a file of the user
			continue
		}
		found, err := loader.Select(scenarios.Full, []string{e.Scenario})
		if err != nil {
			return err
		}
		s := found[0]
		if e.Digest != s.Digest() {
			other = append(other, e.Scenario)
			continue
		}
		v.require(e.Title == s.Title && e.Profile == s.Profile, "%s: the title is %q in profile %s; the built-in scenario is %q in %s", e.Scenario, e.Title, e.Profile, s.Title, s.Profile)
		v.checks(e, s)
	}
	missing, _ := r.missing() // that the set is unknown, head has found
	if r.Catalogue != ours {
		played := "does not record which catalogue it was played with"
		if r.Catalogue != "" {
			played = "was played with the catalogue " + r.Catalogue
		}
		return fmt.Errorf("%w: the report %s; this build has %s, in which %d of the %s of the report have another text (%s), and the set %s has %d that the report lacks (%s), and %d tolerances differ: verify it with the build that played it",
			ErrNotComparable, played, ours, len(other), history.Count(len(r.Results), "scenario"), names(other), r.Set, len(missing), names(missing), len(otherTolerances(r.Tolerances)))
	}
	for _, name := range other {
		v.wrong("%s: its text is not that of the built-in scenario of this name", name)
	}
	for _, name := range missing {
		v.require(slices.Contains(r.LeftOut, name), "%s: it is of the set %s; the report has no result of it, and does not name it in leftOut", name, r.Set)
	}
	for _, name := range r.LeftOut {
		v.require(slices.Contains(missing, name), "leftOut: %s is not a scenario of the set %s without a result", name, r.Set)
	}
	return nil
}

// checks requires a verdict of each check that the built-in scenario has for every handler.
func (v *verification) checks(e Entry, s scenarios.Scenario) {
	if e.Outcome != verdict.Pass && e.Outcome != verdict.Fail {
		return // a drill that was not played has no other verdict
	}
	for _, c := range s.Checks {
		if needs, ok := c.Requirement.(scenarios.Needing); ok && needs.Needs() != (scenarios.Needs{}) {
			continue
		}
		v.require(slices.ContainsFunc(e.Verdicts, func(found verdict.Verdict) bool {
			kind, _ := verdict.KindOf(found.ID)
			return string(kind.ID) == c.Kind
		}), "%s: the built-in scenario has the check %s, and the report has no verdict of it", e.Scenario, c.Kind)
	}
}

// names joins names for a sentence.
func names(of []string) string {
	return cmp.Or(strings.Join(of, ", "), "none")
}

// covers is what the report is about: a reader must see what it does not have.
func (r *Report) covers() string {
	var skipped, own []string
	for _, e := range r.Results {
		if e.Outcome == verdict.Skipped {
			skipped = append(skipped, e.Scenario)
		}
		if !scenarios.InCatalogue(e.Scenario) {
			own = append(own, e.Scenario)
		}
	}
	text := fmt.Sprintf("%s, of set %s with %s", r.Summary, r.Set, r.Handler.Name)
	for _, part := range []struct {
		what string
		of   []string
	}{{"skipped", skipped}, {"not of the catalogue", own}, {"left out", r.LeftOut}} {
		if len(part.of) > 0 {
			text += fmt.Sprintf("; %s: %s", part.what, names(part.of))
		}
	}
	return text
}

func (v *verification) wrong(format string, args ...any) {
	v.found = append(v.found, fmt.Errorf(format, args...))
}

// require reports what is wrong if it does not hold.
func (v *verification) require(holds bool, wrong string, args ...any) {
	if !holds {
		v.wrong(wrong, args...)
	}
}

func (v *verification) head() {
	r := v.report
	v.require(r.Handler.Name != "", "handler: it has no name")
	v.require(r.Handler.Version != "" && r.Handler.Version != "(devel)", "handler: version %q names no build that could be drilled again", r.Handler.Version)
	v.require(slices.Contains(scenarios.SetsToPlay(), r.Set), "set: %q; allowed: %s", r.Set, strings.Join(history.Words(scenarios.SetsToPlay()), ", "))
	v.require(r.Run != "", "run: it has no name")
	v.require(!r.Started.IsZero(), "started: it does not show when")
	v.require(len(r.Results) != 0, "results: there are none")
}

// needed are the parts of the environment without which a run cannot be repeated.
func needed() []string {
	return []string{"cores", "engine", "kernel", "kube-proxy", "kubernetes", "localstack-image", "node-image"}
}

func (v *verification) environment() {
	r := v.report
	for _, name := range needed() {
		v.require(r.Environment[name] != "", "environment: %s is missing, so the run cannot be repeated", name)
	}
	want := environmentDigest(r.Environment)
	v.require(r.EnvironmentDigest == want, "environmentDigest: %q; that of the environment in the report is %s", r.EnvironmentDigest, want)
	if r.Catalogue == scenarios.CatalogueDigest() { // else another build judged, see catalogue
		v.found = append(v.found, otherTolerances(r.Tolerances)...)
	}
}

// otherTolerances are the differences to those that this version judges by.
func otherTolerances(was map[string]float64) (found []error) {
	ours := verdict.Tolerances()
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		got, ok := was[name]
		switch {
		case !ok:
			found = append(found, fmt.Errorf("tolerances: %s is missing, this version judges by %g", name, ours[name]))
		case got != ours[name]:
			found = append(found, fmt.Errorf("tolerances: %s is %g, this version judges by %g", name, got, ours[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := ours[name]; !ok {
			found = append(found, fmt.Errorf("tolerances: %s is not one that this version judges by", name))
		}
	}
	return found
}

// counts checks the summary and the profiles against the results.
func (v *verification) counts() {
	again := New(v.report.folder, v.report.Handler, v.report.Set, nil)
	names, with := map[string]bool{}, map[string]string{}
	for _, e := range v.report.Results {
		with[e.Scenario] = e.PlayedWith
	}
	for _, e := range v.report.Results {
		v.require(!names[e.Scenario], "results: scenario %s has two entries", e.Scenario)
		v.require(e.PlayedWith == "" || with[e.PlayedWith] == e.Scenario, "results: scenario %s was played at the same time as %s, which does not show it", e.Scenario, e.PlayedWith)
		names[e.Scenario] = true
		again.Add(e)
	}
	v.require(again.Summary == v.report.Summary, "summary: %+v; the results come to %+v", v.report.Summary, again.Summary)
	v.require(again.Core == v.report.Core && again.Extended == v.report.Extended, "core and extended: %+v and %+v; the results come to %+v and %+v", v.report.Core, v.report.Extended, again.Core, again.Extended)
	v.require(slices.Equal(again.Profiles, v.report.Profiles), "profiles: %+v; the results come to %+v", v.report.Profiles, again.Profiles)
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// entry checks a result for itself: an outcome must follow from its verdicts.
func (v *verification) entry(e Entry) {
	require := func(holds bool, wrong string, args ...any) {
		v.require(holds, "%s: "+wrong, append([]any{e.Scenario}, args...)...)
	}
	require(e.Scenario != "" && e.Title != "", "a result needs a scenario and a title")
	require(slices.Contains(append(scenarios.Profiles(), scenarios.ObserveProfile), e.Profile), "profile %q; allowed: %s", e.Profile, strings.Join(scenarios.Profiles(), ", "))
	require(e.Attempts >= 1, "attempts: %d", e.Attempts)
	require(digest.MatchString(e.Digest), "scenarioDigest: %q does not identify the scenario's text", e.Digest)
	for _, l := range slices.Concat(e.Losses, e.ApplicationLosses) {
		require(slices.Contains(loss.Causes(), l.Cause) && l.Fresh >= 0 && l.Fixed >= 0 && l.Lost() != 0, "losses: %d fresh and %d fixed to cause %q; allowed: %v, each with a count", l.Fresh, l.Fixed, l.Cause, loss.Causes())
	}
	outcomes := map[verdict.Outcome]int{}
	for _, c := range e.Verdicts {
		outcomes[c.Outcome]++
		require(c.Check != "" && c.Want != "" && c.Got != "", "check %q does not describe what was wanted and what was seen", c.Check)
		_, known := verdict.KindOf(c.ID)
		require(known, "check %s: its id %q is not known to this version", c.Check, c.ID)
		require(valid(c.Outcome), "check %s: outcome %q is none of pass, fail, unknown, skipped", c.Check, c.Outcome)
		for _, name := range slices.Sorted(maps.Keys(c.Numbers)) {
			n := c.Numbers[name]
			require(!math.IsNaN(n) && !math.IsInf(n, 0), "check %s: %s is %g", c.Check, name, n)
		}
	}
	all := len(e.Verdicts)
	follows := map[verdict.Outcome]bool{
		verdict.Pass:    all > 0 && outcomes[verdict.Pass] == all,
		verdict.Fail:    outcomes[verdict.Fail] > 0,
		verdict.Unknown: outcomes[verdict.Fail] == 0,
		verdict.Skipped: all > 0 && outcomes[verdict.Skipped] == all,
	}
	for _, o := range e.Repeats {
		require(valid(o), "repeats: outcome %q is none of pass, fail, unknown, skipped", o)
		require(!o.Worse(e.Outcome), "outcome %s, though a repeat was %s", e.Outcome, o)
	}
	for _, name := range slices.Sorted(maps.Keys(e.CheckRepeats)) {
		each := e.CheckRepeats[name]
		require(len(each) == len(e.Repeats), "checkRepeats: %s has %d of %s", name, len(each), history.Count(len(e.Repeats), "repeat"))
		for i, o := range each[:min(len(each), len(e.Repeats))] {
			require(valid(o), "checkRepeats: outcome %q is none of pass, fail, unknown, skipped", o)
			require(!o.Worse(e.Repeats[i]), "checkRepeats: %s was %s in a repeat that was %s", name, o, e.Repeats[i])
		}
	}
	require(valid(e.Outcome), "outcome %q is none of pass, fail, unknown, skipped", e.Outcome)
	require(follows[e.Outcome] || !valid(e.Outcome), "outcome %s does not follow from its %s: %d pass, %d fail", e.Outcome, history.Count(all, "verdict"), outcomes[verdict.Pass], outcomes[verdict.Fail])
}

func valid(o verdict.Outcome) bool { return o == verdict.Unknown || o.Known() == o }

// histories judges what the run recorded again. The error is that of the context.
func (v *verification) histories(ctx context.Context) error {
	dir := v.report.folder.Path
	var rights []Right
	defer func() {
		v.require(slices.Equal(rights, v.report.Rights), "rights: %d with their requests; the histories come to %d others", len(v.report.Rights), len(rights))
	}()
	for _, e := range v.report.Results {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("judge the histories again: %w", err)
		}
		if e.History == "" {
			v.require(e.Outcome != verdict.Pass && e.Outcome != verdict.Fail, "%s: reported as %s without a history to judge", e.Scenario, e.Outcome)
			continue // skipped, or broken before anything was recorded
		}
		if !filepath.IsLocal(filepath.FromSlash(e.History)) {
			v.wrong("%s: history %q is not within the run's folder", e.Scenario, e.History)
			continue
		}
		if err := within(dir, e.History); err != nil {
			v.wrong("%s: history %q: %w", e.Scenario, e.History, err)
			continue
		}
		s, h, err := loadAttempt(filepath.Join(dir, filepath.FromSlash(e.History)))
		if err != nil {
			v.wrong("%s: cannot be judged again: %v", e.Scenario, err)
			continue
		}
		again := judged(s, h)
		rights = sumRights(rights, again.rights)
		v.sameRun(e, h.Meta, s.Handler != scenarios.HandlerNone)
		switch {
		case again.Scenario != e.Scenario:
			v.wrong("%s: the history next to the report is of scenario %s", e.Scenario, again.Scenario)
		case again.Digest != e.Digest:
			v.wrong("%s: the scenario next to its history is not the report's: %s, not %s", e.Scenario, again.Digest, e.Digest)
		case again.Title != e.Title || again.Profile != e.Profile:
			v.wrong("%s: the title is %q in profile %s; that of the scenario next to its history is %q in %s", e.Scenario, e.Title, e.Profile, again.Title, again.Profile)
		case again.Outcome != e.Outcome:
			v.wrong("%s: reported as %s, judged again it is %s", e.Scenario, e.Outcome, again.Outcome)
		default:
			v.verdicts(e, again)
		}
	}
	return nil
}

// sameRun requires that a history was recorded with the handler, in the set and the environment of the
// report, and after its run began: a record of another run shows nothing about this one. Some scenarios
// have no handler at work.
func (v *verification) sameRun(e Entry, meta history.Meta, handled bool) {
	r, by := v.report, meta.Handler
	resumed := strings.Contains(r.Environment[productKey], ", then ") && strings.Contains(r.Environment[productKey], by.Version)
	v.require(!handled || by.Name == r.Handler.Name && (by.Version == r.Handler.Version || resumed), "%s: its history was recorded with %s %s; the report is of %s %s", e.Scenario, by.Name, by.Version, r.Handler.Name, r.Handler.Version)
	v.require(meta.Set == string(r.Set), "%s: its history was recorded in the set %q; the report is of the set %q", e.Scenario, meta.Set, r.Set)
	v.require(!meta.Base.Before(r.Started.Truncate(time.Second)), "%s: its history began at %s, before the run at %s", e.Scenario, meta.Base.UTC().Format(time.RFC3339), r.Started.UTC().Format(time.RFC3339))
	for _, name := range needed() {
		was, recorded := meta.Environment[name]
		v.require(!recorded || was == r.Environment[name], "%s: its history was recorded with %s %q; the environment of the report has %q", e.Scenario, name, was, r.Environment[name])
	}
}

// within returns an error if a path leads out of a folder, by a symbolic link.
func within(dir, path string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	_, err = root.Stat(filepath.FromSlash(path))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // which judging reports
	}
	return errors.Join(err, root.Close())
}

func (v *verification) losses(scenario, what string, was, again []loss.Loss) {
	v.require(slices.Equal(was, again), "%s: %s reported as %q, judged again as %q", scenario, what, loss.Explain(was), loss.Explain(again))
}

func (v *verification) verdicts(was, again Entry) {
	v.losses(was.Scenario, "losses", was.Losses, again.Losses)
	v.losses(was.Scenario, "losses of the application", was.ApplicationLosses, again.ApplicationLosses)
	if len(was.Verdicts) != len(again.Verdicts) {
		v.wrong("%s: reported with %s, judged again there are %d", was.Scenario, history.Count(len(was.Verdicts), "check"), len(again.Verdicts))
		return
	}
	for i, c := range was.Verdicts {
		now := again.Verdicts[i]
		now.Counted = nil // a report holds its numbers only
		v.require(reflect.DeepEqual(c, now), "%s: check %s: reported as %s: %s; judged again %s is %s: %s", was.Scenario, c.Check, c.Outcome, c.Got, now.Check, now.Outcome, now.Got)
	}
}
