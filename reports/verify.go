package reports

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Verify reports what is wrong with a YAML report, one error for each finding: what
// is malformed, what contradicts the rest, and what is missing to repeat the run.
// Unless withoutHistories is set, it also judges the histories next to the report
// again and requires the same verdicts.
func Verify(file string, withoutHistories bool) error {
	r, err := Load(file)
	if err != nil {
		return err
	}
	v := verification{report: r}
	v.head()
	v.environment()
	v.counts()
	for _, e := range r.Results {
		v.entry(e)
	}
	if !withoutHistories {
		v.histories()
	}
	return errors.Join(v.found...)
}

// verification gathers what is wrong with a report.
type verification struct {
	report *Report
	found  []error
}

func (v *verification) wrong(format string, args ...any) {
	v.found = append(v.found, fmt.Errorf(format, args...))
}

func (v *verification) head() {
	r := v.report
	if r.Handler.Name == "" {
		v.wrong("handler: it has no name")
	}
	if r.Handler.Version == "" || r.Handler.Version == "(devel)" {
		v.wrong("handler: version %q names no build that could be drilled again", r.Handler.Version)
	}
	if !slices.Contains(scenarios.Sets(), r.Set) {
		v.wrong("set: %q; allowed: %s", r.Set, strings.Join(history.Words(scenarios.Sets()), ", "))
	}
	if r.Run == "" {
		v.wrong("run: it has no name")
	}
	if r.Started.IsZero() {
		v.wrong("started: it does not show when")
	}
	if len(r.Results) == 0 {
		v.wrong("results: there are none")
	}
}

// needed are the parts of the environment without which a run cannot be repeated.
func needed() []string {
	return []string{"cores", "engine", "kernel", "kube-proxy", "kubernetes", "localstack-image", "node-image"}
}

func (v *verification) environment() {
	r := v.report
	for _, name := range needed() {
		if r.Environment[name] == "" {
			v.wrong("environment: %s is missing, so the run cannot be repeated", name)
		}
	}
	if want := environmentDigest(r.Environment); r.EnvironmentDigest != want {
		v.wrong("environmentDigest: %q; that of the environment in the report is %s", r.EnvironmentDigest, want)
	}
	ours := verdict.Tolerances()
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if got, ok := r.Tolerances[name]; !ok || got != ours[name] {
			v.wrong("tolerances: %s is %s, this version judges by %g", name, shown(got, ok), ours[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Tolerances)) {
		if _, ok := ours[name]; !ok {
			v.wrong("tolerances: %s is not one that this version judges by", name)
		}
	}
}

// shown is a tolerance as a report has it.
func shown(v float64, ok bool) string {
	if !ok {
		return "missing"
	}
	return fmt.Sprintf("%g", v)
}

// counts checks the summary and the profiles against the results.
func (v *verification) counts() {
	again := New(v.report.folder, v.report.Handler, v.report.Set, nil)
	names, with := map[string]bool{}, map[string]string{}
	for _, e := range v.report.Results {
		with[e.Scenario] = e.PlayedWith
	}
	for _, e := range v.report.Results {
		if names[e.Scenario] {
			v.wrong("results: scenario %s has two entries", e.Scenario)
		}
		if e.PlayedWith != "" && with[e.PlayedWith] != e.Scenario {
			v.wrong("results: scenario %s was played at the same time as %s, which does not show it", e.Scenario, e.PlayedWith)
		}
		names[e.Scenario] = true
		again.Add(e)
	}
	if again.Summary != v.report.Summary {
		v.wrong("summary: %+v; the results come to %+v", v.report.Summary, again.Summary)
	}
	if again.Core != v.report.Core || again.Extended != v.report.Extended {
		v.wrong("core and extended: %+v and %+v; the results come to %+v and %+v", v.report.Core, v.report.Extended, again.Core, again.Extended)
	}
	if !slices.Equal(again.Profiles, v.report.Profiles) {
		v.wrong("profiles: %+v; the results come to %+v", v.report.Profiles, again.Profiles)
	}
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// entry checks a result for itself: an outcome must follow from its verdicts.
func (v *verification) entry(e Entry) {
	wrong := func(format string, args ...any) { v.wrong("%s: "+format, append([]any{e.Scenario}, args...)...) }
	if e.Scenario == "" || e.Title == "" {
		wrong("a result needs a scenario and a title")
	}
	if !slices.Contains(append(scenarios.Profiles(), scenarios.ObserveProfile), e.Profile) {
		wrong("profile %q; allowed: %s", e.Profile, strings.Join(scenarios.Profiles(), ", "))
	}
	if e.Attempts < 1 {
		wrong("attempts: %d", e.Attempts)
	}
	if !digest.MatchString(e.Digest) {
		wrong("scenarioDigest: %q does not identify the scenario's text", e.Digest)
	}
	for _, l := range slices.Concat(e.Losses, e.ApplicationLosses) {
		if !slices.Contains(loss.Causes(), l.Cause) || l.Fresh < 0 || l.Fixed < 0 || l.Lost() == 0 {
			wrong("losses: %d fresh and %d fixed to cause %q; allowed: %v, each with a count", l.Fresh, l.Fixed, l.Cause, loss.Causes())
		}
	}
	outcomes := map[verdict.Outcome]int{}
	for _, c := range e.Verdicts {
		outcomes[c.Outcome]++
		if c.Check == "" || c.Want == "" || c.Got == "" {
			wrong("check %q does not describe what was wanted and what was seen", c.Check)
		}
		if _, known := verdict.KindOf(c.ID); !known {
			wrong("check %s: its id %q is not known to this version", c.Check, c.ID)
		}
		if !valid(c.Outcome) {
			wrong("check %s: outcome %q is none of pass, fail, unknown, skipped", c.Check, c.Outcome)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Numbers)) {
			if n := c.Numbers[name]; math.IsNaN(n) || math.IsInf(n, 0) {
				wrong("check %s: %s is %g", c.Check, name, n)
			}
		}
	}
	all := len(e.Verdicts)
	follows := map[verdict.Outcome]bool{
		verdict.Pass:    all > 0 && outcomes[verdict.Pass] == all,
		verdict.Fail:    outcomes[verdict.Fail] > 0,
		verdict.Unknown: outcomes[verdict.Fail] == 0,
		verdict.Skipped: all > 0 && outcomes[verdict.Skipped] == all,
	}
	switch {
	case !valid(e.Outcome):
		wrong("outcome %q is none of pass, fail, unknown, skipped", e.Outcome)
	case !follows[e.Outcome]:
		wrong("outcome %s does not follow from its %d verdicts: %d pass, %d fail", e.Outcome, all, outcomes[verdict.Pass], outcomes[verdict.Fail])
	}
}

func valid(o verdict.Outcome) bool { return o == verdict.Unknown || o.Known() == o }

// histories judges what the run recorded again.
func (v *verification) histories() {
	dir := v.report.folder.Path
	var rights []Right
	defer func() {
		if !slices.Equal(rights, v.report.Rights) {
			v.wrong("rights: %d with their requests; the histories come to %d others", len(v.report.Rights), len(rights))
		}
	}()
	for _, e := range v.report.Results {
		if e.History == "" {
			continue // skipped, or broken before anything was recorded
		}
		if !filepath.IsLocal(filepath.FromSlash(e.History)) {
			v.wrong("%s: history %q is not within the run's folder", e.Scenario, e.History)
			continue
		}
		again, _, err := judgeAttempt(dir, filepath.Join(dir, filepath.FromSlash(e.History)))
		rights = sumRights(rights, again.rights)
		switch {
		case err != nil:
			v.wrong("%s: cannot be judged again: %v", e.Scenario, err)
		case again.Scenario != e.Scenario:
			v.wrong("%s: the history next to the report is of scenario %s", e.Scenario, again.Scenario)
		case again.Digest != e.Digest:
			v.wrong("%s: the scenario next to its history is not the report's: %s, not %s", e.Scenario, again.Digest, e.Digest)
		case again.Outcome != e.Outcome:
			v.wrong("%s: reported as %s, judged again it is %s", e.Scenario, e.Outcome, again.Outcome)
		default:
			v.verdicts(e, again)
		}
	}
}

func (v *verification) losses(scenario, what string, was, again []loss.Loss) {
	if !slices.Equal(was, again) {
		v.wrong("%s: %s reported as %q, judged again as %q", scenario, what, loss.Explain(was), loss.Explain(again))
	}
}

func (v *verification) verdicts(was, again Entry) {
	v.losses(was.Scenario, "losses", was.Losses, again.Losses)
	v.losses(was.Scenario, "losses of the application", was.ApplicationLosses, again.ApplicationLosses)
	if len(was.Verdicts) != len(again.Verdicts) {
		v.wrong("%s: reported with %d checks, judged again there are %d", was.Scenario, len(was.Verdicts), len(again.Verdicts))
		return
	}
	for i, c := range was.Verdicts {
		now := again.Verdicts[i]
		now.Counted = nil // a report holds its numbers only
		if !reflect.DeepEqual(c, now) {
			v.wrong("%s: check %s: reported as %s: %s; judged again %s is %s: %s", was.Scenario, c.Check, c.Outcome, c.Got, now.Check, now.Outcome, now.Got)
		}
	}
}
