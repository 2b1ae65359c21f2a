// Package reports writes the results of a run: to the console, as HTML, as JUnit XML
// and as YAML. It also defines the layout of a run's folder.
package reports

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports/timeline"
	"github.com/spotdrill/spotdrill/scenarios"
)

// APIVersion and Kind head every report.
const (
	APIVersion = "spotdrill.dev/v1alpha1"
	Kind       = "DrillReport"
)

// Report is the result of one run with one handler.
type Report struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Handler    Handler `yaml:"handler"`
	// Second is the second handler, if the run had one in all its drills.
	Other *Handler      `yaml:"secondHandler,omitempty"`
	Set   scenarios.Set `yaml:"set"`
	// Catalogue identifies the built-in scenarios of the build that played, see
	// scenarios.CatalogueDigest; empty if that is not known.
	Catalogue string `yaml:"catalogue,omitempty"`
	// LeftOut are the scenarios of the set that the run did not have.
	LeftOut []string `yaml:"leftOut,omitempty,flow"`
	// Shard is the part of the run that this one played, such as 2/4; empty: all of it.
	Shard   string    `yaml:"shard,omitempty"`
	Run     string    `yaml:"run"` // see Folder
	Started time.Time `yaml:"started"`
	// Environment holds versions of the parts, digests of images, kernel, cores,
	// kube-proxy's mode: what figures depend on besides handler and scenarios.
	Environment map[string]string `yaml:"environment"`
	// EnvironmentDigest is the same for two runs whose environments are the same.
	EnvironmentDigest string `yaml:"environmentDigest"`
	// EndedEarly is why the run ended before its last drill, such as a set-up that failed; empty if it did not.
	EndedEarly string `yaml:"endedEarly,omitempty"`
	// Tolerances are those that the drills were judged with, see verdict.Tolerances.
	Tolerances map[string]float64 `yaml:"tolerances"`
	Timings    Timings            `yaml:"timings"`
	Summary    Counts             `yaml:"summary"`
	// Core and Extended are the summary's two parts: the scenarios that apply to every
	// handler, see scenarios.CoreProfiles, and those of features that it may claim.
	Core     Counts          `yaml:"core"`
	Extended Counts          `yaml:"extended"`
	Profiles []ProfileCounts `yaml:"profiles"` // in the order in which they were drilled
	// Rights are what the handler may do in the cluster, and how often it did it; none
	// if no audit log was read.
	Rights  []Right `yaml:"rights,omitempty"`
	Results []Entry `yaml:"results"` // in the order in which they were drilled

	folder Folder
}

// Handler names the handler under test.
type Handler struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	// Description is the value of --handler: the name of one that comes with the
	// product, or the path of a file.
	Description string `yaml:"description,omitempty"`
	// Image is the value of --handler-image, if it was set.
	Image string `yaml:"image,omitempty"`
	// Policy is the value of --iam-policy, if it was set.
	Policy string `yaml:"policy,omitempty"`
}

// Entry is the outcome of one scenario in a report.
type Entry struct {
	verdict.Result `yaml:",inline"`
	Attempts       int `yaml:"attempts"` // how many were made; the last one is judged
	// Repeats are the outcomes if the scenario was played several times. The worst of
	// them is the entry's own; History is that of the first repeat with this outcome.
	Repeats []verdict.Outcome `yaml:"repeats,omitempty,flow"`
	// CheckRepeats are the outcomes of each check in the repeats, by the check's name; a name that comes
	// again is numbered: "drained victim (2)".
	CheckRepeats map[string][]verdict.Outcome `yaml:"checkRepeats,omitempty"`
	// PlayedWith is the scenario that was played at the same time.
	PlayedWith string `yaml:"beside,omitempty"`
	// Lane is the number of the lane in which it was played, at the same time as drills in other lanes, from 1; 0 if it
	// was played in none. LaneAttempt is, if it did not pass in one and was therefore played again alone, the lane and what
	// did not pass there.
	Lane        int     `yaml:"lane,omitempty"`
	LaneAttempt string  `yaml:"laneAttempt,omitempty"`
	Measured    Seconds `yaml:"seconds"` // all attempts together
	Expected    Seconds `yaml:"-"`       // of one attempt
	// Phases are those of Measured; none if it was played at the same time as an earlier scenario, or in a lane.
	Phases PhaseTimes `yaml:"-"`
	// Counterpart is the scenario that shows how the outage of this one is avoided.
	Counterpart string `yaml:"counterpart,omitempty"`
	// History is the folder of the judged attempt, relative to the run's; empty if
	// nothing was recorded.
	History string `yaml:"history,omitempty"`
	// Waterfalls are the steps of each notice, for each node that it names.
	Waterfalls []Waterfall `yaml:"waterfalls,omitempty"`
	// Deviation is the sentence of the handler's description about a scenario that it is known
	// to break. It excuses nothing.
	Deviation string `yaml:"deviation,omitempty"`
	// HandlerPods are what happened to the handler's pods during the drill, though its steps did not do
	// that: one ended, was restarted, or came to another node. One record in each line.
	HandlerPods []string `yaml:"handlerPods,omitempty"`

	// evidence holds the events that verdicts cite, by Seq.
	evidence map[int]cited
	timeline *timeline.Timeline // nil if nothing was recorded
	rights   []Right
}

// cited is an event as reports show it.
type cited struct {
	at   time.Duration
	line string
}

// NewEntry prepares a result for the reports. It keeps only the events of the story
// that verdicts cite, and what the timeline shows.
func NewEntry(r verdict.Result) Entry {
	var h history.History
	if r.Story != nil {
		h = r.Story.History
	}
	evidence := map[int]cited{}
	for _, v := range r.Verdicts {
		for _, seq := range v.Evidence {
			evidence[seq] = cited{}
		}
	}
	for _, e := range h.Events {
		if _, ok := evidence[e.Seq]; ok {
			evidence[e.Seq] = cited{e.At, eventLine(e)}
		}
	}
	e := Entry{Result: r, Attempts: max(1, r.Attempt), evidence: evidence, timeline: timeline.New(r), rights: rightsOf(h)}
	if r.Story != nil {
		e.Counterpart = r.Story.Scenario.Counterpart
		e.HandlerPods = handlerPods(r.Story)
	}
	e.Story = nil // the report would hold every event of the run
	e.Waterfalls = waterfalls(e.timeline)
	if r.Outcome.Known() == verdict.Fail {
		e.Deviation = strings.TrimSpace(r.Handler.Deviations[r.Scenario])
	}
	return e
}

// New starts a report of a run in the folder.
func New(folder Folder, handler Handler, set scenarios.Set, environment map[string]string) *Report {
	return &Report{
		APIVersion: APIVersion, Kind: Kind, Handler: handler, Set: set, Catalogue: scenarios.CatalogueDigest(),
		Run: folder.Run, Started: folder.started.UTC().Truncate(time.Second), Environment: environment,
		Tolerances: verdict.Tolerances(), folder: folder,
	}
}

// environmentDigest is over the sorted pairs, each part with its length, so that
// different environments never have the same text.
func environmentDigest(environment map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		fmt.Fprintf(sum, "%d:%s=%d:%s\n", len(name), name, len(environment[name]), environment[name])
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// Add appends an entry and counts it.
func (r *Report) Add(e Entry) {
	e.Outcome = e.Outcome.Known()
	r.Results = append(r.Results, e)
	r.Summary.Add(e.Outcome)
	r.level(e.Profile).Add(e.Outcome)
	r.Rights = sumRights(r.Rights, e.rights)
	if e.Outcome != verdict.Skipped {
		r.Timings.Scenarios = append(r.Timings.Scenarios, ScenarioTiming{e.Scenario, e.Expected, e.Measured, e.Phases})
	}
	i := slices.IndexFunc(r.Profiles, func(p ProfileCounts) bool { return p.Profile == e.Profile })
	if i < 0 {
		i = len(r.Profiles)
		r.Profiles = append(r.Profiles, ProfileCounts{Profile: e.Profile})
	}
	r.Profiles[i].Add(e.Outcome)
}

// level are the counts of the core, or of the extended scenarios.
func (r *Report) level(profile string) *Counts {
	if slices.Contains(scenarios.CoreProfiles(), profile) {
		return &r.Core
	}
	return &r.Extended
}

// notPassed are the entries to look at: the failures first, then those that could not
// be judged. Skipped ones are not among them.
func (r *Report) notPassed() []Entry {
	var out []Entry
	for _, o := range []verdict.Outcome{verdict.Fail, verdict.Unknown} {
		for _, e := range r.Results {
			if e.Outcome.Known() == o {
				out = append(out, e)
			}
		}
	}
	return out
}

// unplayed are the entries without a drill because the run ended early.
func (r *Report) unplayed() []Entry {
	if r.EndedEarly == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Results), func(e Entry) bool { return !e.unplayed() })
}

// unplayed reports whether nothing of the drill was recorded.
func (e Entry) unplayed() bool {
	return e.History == "" && len(e.Verdicts) == 1 && e.Verdicts[0].ID == verdict.IDOfRun
}

// First is the verdict to look at first if the entry did not pass: what broke the drill itself, else the
// first one with the entry's outcome.
func (e Entry) First() verdict.Verdict {
	outcome := e.Outcome.Known()
	like := func(v verdict.Verdict) bool { return v.Outcome.Known() == outcome }
	broken := func(v verdict.Verdict) bool { return v.ID == verdict.IDOfHarness && like(v) }
	for _, matches := range []func(verdict.Verdict) bool{broken, like} {
		if i := slices.IndexFunc(e.Verdicts, matches); i >= 0 && outcome != verdict.Pass {
			return e.Verdicts[i]
		}
	}
	return verdict.NotRun(scenarios.Scenario{}, "no check was evaluated").Verdicts[0]
}

// rejudge is the command that judges an entry again.
func (r *Report) rejudge(e Entry) string {
	if e.History == "" {
		return ""
	}
	return "spotdrill judge " + filepath.ToSlash(filepath.Join(r.folder.Path, e.History))
}

// Reproduce is the command that plays an entry's scenario again: one of the
// catalogue by its name, any other by the file that its attempt saved.
func (r *Report) Reproduce(e Entry) string {
	if e.Profile == scenarios.ObserveProfile {
		return ownCluster(e.Scenario, r.Environment[ContextOf])
	}
	scenario := e.Scenario
	if !scenarios.InCatalogue(scenario) && e.History != "" {
		scenario = filepath.ToSlash(ScenarioFile(filepath.Join(r.folder.Path, e.History), e.Scenario))
	}
	command := fmt.Sprintf("spotdrill run %s --handler %s --set %s", scenario, cmp.Or(r.Handler.Description, r.Handler.Name), r.Set)
	if r.Other != nil {
		command += " --handler " + cmp.Or(r.Other.Description, r.Other.Name)
	}
	if r.Handler.Image != "" {
		command += " --handler-image " + r.Handler.Image
	}
	if r.Handler.Policy != "" {
		command += " --iam-policy " + r.Handler.Policy
	}
	// The default mode would make the command recreate a cluster of another mode.
	platform := r.Environment[history.PlatformKey]
	if platform != "" {
		command += " --platform " + platform
	}
	if mode := r.Environment["kube-proxy"]; mode != "" && (mode != string(history.ProxyModes()[0]) || platform != "") {
		command += " --proxy-mode " + mode
	}
	if versions := r.Environment[VersionsOf]; versions != "" {
		command += " " + versions
	}
	return command
}

// goOn is how to play what is left of a run that ended early.
func (r *Report) goOn() string {
	if !slices.ContainsFunc(r.Results, func(e Entry) bool { return e.History != "" }) {
		return "repeat the command to play them" // there is nothing to resume
	}
	return "to play them: spotdrill run --resume " + r.folder.Path
}

// VersionsOf is the part of the environment with the versions that were chosen, as the flags that choose them.
const VersionsOf = "versions"

// ContextOf is the part of the environment that names the kubeconfig's context of a cluster that is
// not spotdrill's own.
const ContextOf = "context"

// ownCluster is the command that observes or drills the user's own cluster again.
func ownCluster(scenario, context string) string {
	command := "spotdrill observe"
	if scenario != scenarios.ObservationName {
		command = "spotdrill live " + scenario
	}
	if context != "" {
		command += " --context " + context
	}
	return command
}

// WritePage writes the HTML report into the report's folder and returns its path.
func (r *Report) WritePage() (string, error) {
	file := filepath.Join(r.folder.Path, HTMLFile)
	return file, writeFile(file, r.WriteHTML)
}

// Missing is what a page of the report lacks, in a sentence; "" if every recorded drill has
// its history.
func (r *Report) Missing() string {
	recorded, without := 0, 0
	for _, e := range r.Results {
		if e.History == "" {
			continue
		}
		recorded++
		if e.timeline == nil {
			without++
		}
	}
	if without == 0 {
		return ""
	}
	return fmt.Sprintf("Timelines and the records behind verdicts are missing for %d of %s: their histories are not in the folder of the run.", without, history.Count(recorded, "drill"))
}

// mostReport is the largest YAML report that is read, in bytes. One of 200 drills has 1 MiB.
const mostReport = 8 << 20

// Load reads a YAML report. An unknown field is an error that names file, line
// and what would be allowed.
func Load(file string) (*Report, error) {
	data, err := files.Read(filepath.Dir(file), filepath.Base(file), mostReport)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	r := &Report{folder: Folder{Path: filepath.Dir(file)}}
	if err := strict.Decode(file, data, r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if r.APIVersion != APIVersion || r.Kind != Kind {
		return nil, fmt.Errorf("read report: %s: it is of %q, kind %q; this version reads %s, kind %s", file, r.APIVersion, r.Kind, APIVersion, Kind)
	}
	if err := r.valid(); err != nil {
		return nil, fmt.Errorf("read report: %s: %w", file, err)
	}
	r.folder.Run, r.folder.started = r.Run, r.Started
	return r, nil
}

// valid returns an error for a report that is cut short, or whose names could not be ones.
func (r *Report) valid() error {
	if r.Results == nil { // WriteYAML writes a list also if there is none
		return errors.New("it has no results: the file is cut short")
	}
	if r.Summary.Total != len(r.Results) {
		return fmt.Errorf("the summary counts %s, and there are %s: the file is cut short, or was edited", history.Count(r.Summary.Total, "drill"), history.Count(len(r.Results), "result"))
	}
	names := []string{r.Handler.Name, r.Handler.Version, r.Run}
	for _, e := range r.Results {
		names = append(names, e.Scenario, e.Profile)
		if !filepath.IsLocal(e.Scenario + ".yaml") {
			return fmt.Errorf("%q cannot be the name of a scenario", e.Scenario)
		}
	}
	for _, name := range names {
		if !foreign.Named(name) {
			return fmt.Errorf("%q has characters that a name cannot have, or too many", name)
		}
	}
	return nil
}

// WriteYAML writes the report, fields in a stable order.
func (r *Report) WriteYAML(w io.Writer) error {
	written := *r
	written.EnvironmentDigest = environmentDigest(r.Environment)
	if r.Catalogue == scenarios.CatalogueDigest() {
		var err error
		if written.LeftOut, err = r.missing(); err != nil {
			return fmt.Errorf("write YAML report: %w", err)
		}
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(written); err != nil {
		return fmt.Errorf("write YAML report: %w", err)
	}
	return enc.Close()
}

// MarshalJSON is the report as WriteYAML writes it, in JSON.
func (r *Report) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	if err := r.WriteYAML(&text); err != nil {
		return nil, err
	}
	return k8syaml.YAMLToJSON(text.Bytes())
}

// missing are the names of the built-in scenarios of the set that have no entry.
func (r *Report) missing() ([]string, error) {
	all, err := scenarios.InSet(r.Set)
	return slices.DeleteFunc(all, r.Has), err
}

// Counts are the numbers of scenarios with each outcome.
type Counts struct {
	Passed  int `yaml:"passed"`
	Failed  int `yaml:"failed"`
	Unknown int `yaml:"unknown"`
	Skipped int `yaml:"skipped"`
	Total   int `yaml:"total"`
}

// ProfileCounts are the counts of one profile.
type ProfileCounts struct {
	Profile string `yaml:"profile"`
	Counts  `yaml:",inline"`
}

// Add counts an outcome.
func (c *Counts) Add(o verdict.Outcome) {
	c.Total++
	switch o {
	case verdict.Pass:
		c.Passed++
	case verdict.Fail:
		c.Failed++
	case verdict.Skipped:
		c.Skipped++
	default:
		c.Unknown++
	}
}

// String is the closing line of a run: "13 passed, 0 failed, 1 unknown".
func (c Counts) String() string {
	line := fmt.Sprintf("%d passed, %d failed", c.Passed, c.Failed)
	if c.Unknown > 0 {
		line += fmt.Sprintf(", %d unknown", c.Unknown)
	}
	if c.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped", c.Skipped)
	}
	return line
}
