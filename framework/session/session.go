// Package session checks a handler against scenarios: it brings the system up, plays
// and judges every scenario, repeats what could not be judged, and writes the
// reports. The command line, the sweeps and the suites all use it.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// SetUpTimeout is long enough for images to be built.
	SetUpTimeout = 40 * time.Minute
	// FinishTimeout bounds restoring the cluster and writing the reports.
	FinishTimeout = 6 * time.Minute
)

// Options define which handler is checked against which scenarios, and where.
type Options struct {
	Handler handler.Description
	// HandlerImage is an image that the container engine holds; empty: the description's.
	HandlerImage string
	// Other, if set, is the handler next to it in the drills of two handlers, instead of those
	// that the scenarios name. No other drills are played then.
	Other     *handler.Description
	Set       scenarios.Set
	Scenarios []scenarios.Scenario // in the order in which they are drilled
	// Shard is the part of Scenarios that is drilled; the zero value is all of them.
	Shard scenarios.Shard
	// Repeat is how many times each is drilled, so that a flake shows; 0 means once.
	Repeat int
	// System is brought up; its Log is the session's.
	System system.Options
	// Out is the folder in which the run gets a folder of its own.
	Out string
	// Lanes is how many drills can be played at the same time in lanes; less than 2 for none.
	Lanes int
	// Keep ends the run at the first drill that does not pass, and leaves the cluster
	// as it is then.
	Keep bool
	// Resumed is the report of a run that ended before its last drill, see reports.Resume:
	// Scenarios are drilled together with those that it has, and its folder is used instead of one in
	// Out. Nil for a run of its own.
	Resumed *reports.Report
	// Console gets the progress.
	Console io.Writer
	// More are drilled after Scenarios, by SelfCheck.
	More []scenarios.Scenario
}

// ErrOver means that no further drill can be played: a part of the system has died, or
// the handler cannot be installed.
var ErrOver = errors.New("the run ends here")

// Session is one run over scenarios. Call SetUp, then Drill for the scenarios in their
// order, then Finish, also after an error.
type Session struct {
	Options

	system  *system.System
	folder  reports.Folder
	report  *reports.Report
	console *reports.Console
	started time.Time
	drills  time.Time // the first drill's start
	cannot  string    // why nothing can be drilled here, or ""
	// others are the handlers next to it that scenarios name; without is why the image of some
	// cannot be had here.
	others  map[string]*handler.Description
	without map[string]string
	// stopwatch runs while a drill is played and judged.
	stopwatch  stopwatch
	earlier    int    // drills that Resumed has
	unrestored string // the folder of the attempt after which the cluster was left as it was

	// played are the scenarios that had an attempt at the same time as others; ahead has the entries
	// of those that passed in this way before their turn.
	played  map[string]bool
	ahead   map[string]reports.Entry
	inLanes sync.Once // that play what can be played in lanes
	// notPassed is what did not pass in a lane, by the scenario.
	notPassed map[string]string
}

// New is a session that has not begun. It is an error if the handler's description names
// an unknown scenario in its deviations, or in its reasons to keep messages.
func New(opts Options) (*Session, error) {
	names := scenarios.Names()
	for _, s := range opts.Scenarios {
		names = append(names, s.Name)
	}
	if err := opts.Handler.CheckScenarios(names); err != nil {
		return nil, err
	}
	if opts.Lanes < 0 || opts.Lanes > MaxLanes {
		return nil, fmt.Errorf("%d lanes: there can be %d at most", opts.Lanes, MaxLanes)
	}
	for _, h := range []*handler.Description{&opts.Handler, opts.Other} {
		if h != nil && h.Release != nil {
			opts.System.Versions.Set(h.Release.Program, h.Release.Version)
		}
	}
	s := &Session{Options: opts, started: time.Now(), played: map[string]bool{}, ahead: map[string]reports.Entry{}, notPassed: map[string]string{}}
	if err := s.loadOthers(opts.Scenarios); err != nil {
		return nil, err
	}
	s.Scenarios = s.Shard.Of(s.Scenarios, s.expectedOf)
	s.console = reports.NewConsole(opts.Console, len(s.Scenarios)+len(opts.More))
	for _, scenario := range slices.Concat(s.Scenarios, opts.More) {
		if s.NotApplicable(scenario) == "" {
			s.System.Spares = max(s.System.Spares, scenario.Launches())
			s.System.Kwok = s.System.Kwok || scenario.Grows()
		}
	}
	s.System.Kwok = s.System.Kwok || len(s.forLanes()) > 0
	s.System.Log = func(format string, args ...any) { fmt.Fprintf(s.console, format+"\n", args...) }
	return s, nil
}

// SetUp brings the system up. It begins the report first, so that a set-up that fails is
// reported too.
func (s *Session) SetUp(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	err := s.setUp(ctx)
	s.endEarly(ctx, err)
	return err
}

func (s *Session) setUp(ctx context.Context) (err error) {
	s.System.Log("setting the system up (about 10 min if images must be built, else less than a minute)")
	s.system, err = system.Up(ctx, s.System)
	if errors.Is(err, system.ErrNoIPVS) {
		s.cannot = err.Error()
		s.report.Environment = map[string]string{"kube-proxy": string(s.System.ProxyMode)}
		return nil
	}
	if err != nil {
		return fmt.Errorf("set-up: %w", err)
	}
	err = s.system.Provide(ctx, underTest(s.Handler), s.HandlerImage)
	// In a user's description the reference may as well be misspelt, and a version that was chosen is wanted.
	if errors.Is(err, system.ErrNoImage) && s.Handler.Embedded() && s.Handler.Release == nil {
		s.cannot, err = err.Error(), nil
	}
	if err != nil {
		return fmt.Errorf("set-up: the handler's image: %w", err)
	}
	if err := errors.Join(s.provideOthers(ctx), system.LanesFit(s.Lanes)); err != nil {
		return fmt.Errorf("set-up: %w", err)
	}
	if err := s.report.PlayIn(s.system.Environment); err != nil {
		return fmt.Errorf("go on with run %s: %w", s.folder.Run, err)
	}
	s.report.Handler.Version = s.system.Handlers.Meta(underTest(s.Handler)).Version
	s.report.Timings.Setup += reports.Seconds(time.Since(s.started))
	s.System.Log("set-up took %.0f s", time.Since(s.started).Seconds())
	if expected := s.Expected(); expected.Time > 0 {
		s.System.Log("the drills take %s", expected)
	}
	s.drills = time.Now()
	return nil
}

// endEarly notes why no further drill is played: err, unless ctx is over. Nothing is noted without both.
func (s *Session) endEarly(ctx context.Context, err error) {
	switch {
	case s.report.EndedEarly != "":
	case ctx.Err() != nil:
		s.report.EndedEarly = "interrupted"
	case err != nil:
		s.report.EndedEarly = oneLine(err)
	}
}

// oneLine is an error as a report has it.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// begin makes the report that the drills are added to, and the folder of their histories.
func (s *Session) begin() (err error) {
	if s.Resumed != nil {
		s.report, s.folder, s.earlier = s.Resumed, s.Resumed.Folder(), len(s.Resumed.Results)
		// What it had not finished is played from the beginning.
		for _, scenario := range s.Scenarios {
			if err := s.folder.Remove(scenario); err != nil {
				return err
			}
		}
		return nil
	}
	if s.folder, err = reports.NewFolder(s.Out, s.started); err != nil {
		return err
	}
	meta := s.Handler.Meta()
	s.report = reports.New(s.folder, reports.Handler{Name: meta.Name, Version: meta.Version, Description: s.Handler.Reference(), Image: s.HandlerImage, Policy: s.Handler.Policy}, s.Set, nil)
	s.report.Shard = s.Shard.String()
	if s.Other != nil {
		meta := s.Other.Meta()
		s.report.Other = &reports.Handler{Name: meta.Name, Version: meta.Version, Description: s.Other.Reference()}
	}
	return nil
}

// Estimate is about how long the drills of a session take.
type Estimate struct {
	Time time.Duration
	// AtLeast reports whether some are in lanes: they take longer if the machine does not carry all lanes.
	AtLeast bool
}

// String is the estimate in words.
func (e Estimate) String() string {
	about := "about"
	if e.AtLeast {
		about = "at least"
	}
	return fmt.Sprintf("%s %.0f s", about, e.Time.Seconds())
}

// Expected is about how long the session's drills take.
func (s *Session) Expected() Estimate {
	inLanes := map[string]bool{}
	var longest, sum, alone time.Duration
	for _, scenario := range s.forLanes() {
		inLanes[scenario.Name] = true
		longest, sum = max(longest, s.expectedOf(scenario)), sum+s.expectedOf(scenario)
	}
	for _, scenario := range s.Scenarios {
		if !inLanes[scenario.Name] {
			alone += s.expectedOf(scenario)
		}
	}
	return Estimate{alone + max(longest, sum/time.Duration(max(1, min(s.Lanes, len(inLanes))))), len(inLanes) > 0}
}

// expectedOf is about how long a scenario takes; 0 if it is not played.
func (s *Session) expectedOf(scenario scenarios.Scenario) time.Duration {
	if s.NotApplicable(scenario) != "" {
		return 0
	}
	return Expected(scenario, s.Set) * time.Duration(max(1, s.Repeat))
}

// Expected is about how long a drill takes: the scenario itself, and what arranging and
// restoring usually take.
func Expected(scenario scenarios.Scenario, set scenarios.Set) time.Duration {
	const around = 9 * time.Second
	return scenario.Expected(set) + around
}

// NotApplicable is the reason why the scenario is not played with the handler, or "".
func (s *Session) NotApplicable(scenario scenarios.Scenario) string {
	if s.cannot != "" {
		return s.cannot
	}
	if s.system != nil && s.system.NodeSystem.NoShutdown != "" && len(scenario.ShutDown()) > 0 {
		return s.system.NodeSystem.NoShutdown
	}
	if reason := s.otherSource(scenario); reason != "" && scenario.Handler != scenarios.HandlerNone {
		return reason
	}
	if reason := s.notWithOther(scenario); reason != "" {
		return reason
	}
	switch {
	case scenario.OtherHandler != nil:
		return ""
	case scenario.DeletesUnnoticed() && s.Handler.DeletesNode:
		return fmt.Sprintf("cannot be arranged: %s drains a node whose object is deleted, so that no running instance can be without one", s.Handler.Name)
	case scenario.NeedsWatch() && s.Handler.NoWatch:
		return fmt.Sprintf("cannot be arranged: %s watches nothing, so that no watch can end and an idle one makes no call", s.Handler.Name)
	case scenario.DeliversToAnother() && s.Handler.ElectsLeader:
		return fmt.Sprintf("cannot be arranged: only one replica of %s receives messages, so that no second one can get a copy", s.Handler.Name)
	case !scenario.AboutHandlers() && !slices.Contains([]string{"builtin", handler.None().Name}, s.Handler.Name):
		return "no handler acts in it, so that it ends the same with every handler: it is played with --handler builtin or none"
	case scenario.Setting != "" && len(s.Handler.Settings[scenario.Setting]) == 0:
		return fmt.Sprintf("not supported: the description of %s has no settings for %s", s.Handler.Name, scenario.Setting)
	case scenario.Handler == scenarios.HandlerNone, scenario.Core(), scenario.Feature == "", s.Handler.Claims(scenario.Feature):
		return ""
	}
	return fmt.Sprintf("not supported: the description of %s does not claim %s", s.Handler.Name, scenario.Feature)
}

// readsToo is what the description of somebody's own handler lacks if the handler does read metadata.
func (s *Session) readsToo() string {
	if s.Handler.Embedded() {
		return ""
	}
	return "; if it does, its description has reads: [queue, metadata]"
}

// otherSource is why the scenario is not for a handler that gets its notices as this one does, or "".
func (s *Session) otherSource(scenario scenarios.Scenario) string {
	queue, replicas := scenario.NeedsQueue(), scenario.NeedsReplicas()
	switch {
	case !s.Handler.ReadsQueue() && queue != "":
		return fmt.Sprintf("cannot be arranged: %s reads no queue, and %s", s.Handler.Name, queue)
	case !s.Handler.ReadsMetadata() && scenario.NeedsMetadata():
		return fmt.Sprintf("cannot be arranged: %s does not read the metadata of its instance", s.Handler.Name) + s.readsToo()
	case scenario.Labels() && len(s.Handler.Workers.Labels) == 0:
		return fmt.Sprintf("cannot be arranged: the pods of %s need no label on their node", s.Handler.Name)
	case !s.Handler.OnEachNode() && scenario.MetadataElsewhere() != "":
		return fmt.Sprintf("cannot be arranged: the metadata of %s fails, and %s does not run on each node: leave out node, or move the handler there first", scenario.MetadataElsewhere(), s.Handler.Name)
	case s.Handler.OnEachNode() && replicas != "":
		return fmt.Sprintf("cannot be arranged: %s runs on each node, and %s", s.Handler.Name, replicas)
	}
	return ""
}

// Drill plays and judges one scenario and reports it, or skips it if it does not apply.
// It may play a later scenario at the same time, whose own turn then finds it done. A
// drill that could not be judged is played again, and the last attempt counts. The
// error is the harness's own. No further drill can be played after ErrOver, or once Unrestored
// is not empty. The entry is in the report in every case.
func (s *Session) Drill(ctx context.Context, scenario scenarios.Scenario) (reports.Entry, error) {
	s.inLanes.Do(func() { s.playInLanes(ctx) })
	s.console.Begin(scenario.Name, s.left(scenario))
	if reason := s.NotApplicable(scenario); reason != "" {
		entry := reports.NewEntry(verdict.Skip(scenario, reason))
		s.console.End(entry)
		s.report.Add(entry)
		return entry, nil
	}
	s.stopwatch.begin()
	entry, err := s.play(ctx, scenario)
	entry.LaneAttempt = s.notPassed[scenario.Name]
	if _, done := s.ahead[scenario.Name]; !done {
		entry.Phases = s.stopwatch.stop()
		s.report.Timings.Took(entry.Phases)
	}
	s.report.Add(entry)
	s.endEarly(ctx, nil)
	if ctx.Err() != nil && entry.Outcome.Known() == verdict.Unknown { // a dozen checks that are unknown for this reason would hide it
		s.console.Conclude("interrupted")
		return entry, wrap.Errorf(err, "drill")
	}
	s.console.End(entry)
	if s.unrestored != "" {
		s.endEarly(ctx, fmt.Errorf("%s did not pass, and the cluster is kept as it is then", scenario.Name))
	}
	if err != nil {
		if dead := s.system.Alive(ctx); dead != nil {
			err = fmt.Errorf("%w: %w", ErrOver, dead)
		} else if errors.Is(err, system.ErrNotInstalled) {
			err = fmt.Errorf("%w: %w", ErrOver, err)
		} else {
			return entry, fmt.Errorf("drill: %w", err)
		}
		s.endEarly(ctx, err)
	}
	return entry, err
}

// DrillAll drills every scenario, or ends when no further one can be drilled. The error is the harness's own; failures
// of the handler are in the report.
func (s *Session) DrillAll(ctx context.Context) error {
	var broken []error
	for _, scenario := range s.Scenarios {
		if ctx.Err() != nil {
			break // what is left is reported as not run
		}
		_, err := s.Drill(ctx, scenario)
		if err != nil && ctx.Err() == nil {
			broken = append(broken, err)
		}
		if errors.Is(err, ErrOver) || s.Unrestored() != "" {
			break
		}
	}
	return errors.Join(broken...)
}

// left is about how long a scenario and all that follow take; 0 if it is not played.
func (s *Session) left(scenario scenarios.Scenario) (total time.Duration) {
	if s.expectedOf(scenario) == 0 {
		return 0
	}
	at := max(0, slices.IndexFunc(s.Scenarios, func(o scenarios.Scenario) bool { return o.Name == scenario.Name }))
	for _, next := range s.Scenarios[at:] {
		if _, done := s.ahead[next.Name]; !done {
			total += s.expectedOf(next)
		}
	}
	return total
}

// play plays a scenario together with another if possible. If that is not possible, or did not
// pass, it plays it alone.
func (s *Session) play(ctx context.Context, scenario scenarios.Scenario) (reports.Entry, error) {
	if entry, ok := s.ahead[scenario.Name]; ok {
		return entry, nil
	}
	if partner, ok := s.partner(scenario); ok {
		if entry, done, err := s.playTogether(ctx, scenario, partner); done || err != nil {
			return entry, err
		}
	}
	return s.playRepeats(ctx, scenario)
}

// SelfCheck plays a scenario with a handler that never acts. It is not in the report.
func (s *Session) SelfCheck(ctx context.Context, scenario scenarios.Scenario, idle handler.Description) (reports.Entry, error) {
	s.console.Begin("self-check: a handler that does nothing", Expected(scenario, s.Set))
	entry, err := s.Attempts(ctx, "self-check", scenario, idle)
	if err == nil && entry.Outcome == verdict.Fail {
		s.console.Conclude(fmt.Sprintf("fails %s, as it must, after %.0f s", scenario.Name, time.Duration(entry.Measured).Seconds()))
	} else {
		s.console.End(entry)
	}
	return entry, err
}

// Attempts plays a scenario with another handler than the session's, which it removes
// again, until it can be judged. The histories go to a folder of that name. It is not in
// the report, and can be called without Scenarios.
func (s *Session) Attempts(ctx context.Context, name string, scenario scenarios.Scenario, under handler.Description) (reports.Entry, error) {
	s.stopwatch.begin()
	defer func() { s.report.Timings.Took(s.stopwatch.stop()) }()
	var entry reports.Entry
	played := false
	err := s.withHandler(ctx, name, under, func(folder reports.Folder) (err error) {
		played = true
		entry, err = s.playAttempts(ctx, folder, scenario, under, 1, false)
		s.stopwatch.enter(reports.Restoring)
		return err
	})
	if !played {
		entry = reports.NewEntry(verdict.NotRun(scenario, err.Error()))
	}
	return entry, err
}

// withHandler plays with another handler than the session's, and removes it and its image again. play gets a folder of that name.
func (s *Session) withHandler(ctx context.Context, name string, under handler.Description, play func(reports.Folder) error) error {
	if err := s.system.Provide(ctx, underTest(under), ""); err != nil {
		return fmt.Errorf("the handler's image: %w", err)
	}
	folder := s.folder
	folder.Path = filepath.Join(folder.Path, name)
	err := play(folder)
	ctx = context.WithoutCancel(ctx)
	if uninstalled := s.system.Handlers.Uninstall(ctx, history.UnderTest); uninstalled != nil {
		return errors.Join(err, uninstalled)
	}
	return errors.Join(err, s.system.RemoveImage(ctx, underTest(under)))
}

// Finish writes the report and restores the cluster, however the run ended.
func (s *Session) Finish(ctx context.Context) error {
	if s.report == nil {
		return nil
	}
	if !s.drills.IsZero() {
		s.report.Timings.Ended(time.Duration(s.report.Timings.Drills) + time.Since(s.drills))
	}
	for _, scenario := range s.Scenarios[len(s.report.Results)-s.earlier:] {
		entry, ok := s.ahead[scenario.Name]
		if !ok {
			entry = reports.NewEntry(verdict.NotRun(scenario, strings.TrimSuffix("the run ended before it: "+s.report.EndedEarly, ": ")))
		}
		s.report.Add(entry)
	}
	written := s.folder.Write(s.report)
	s.console.Summary(s.report)
	return errors.Join(written, s.Restore(ctx))
}

// Restore brings the cluster back to how it was created, unless a drill left it as it
// was, and lets other processes use it. Finish does it too; alone it is for a session that
// has no report of its own.
func (s *Session) Restore(ctx context.Context) error {
	if s.system == nil {
		return nil
	}
	if s.unrestored != "" {
		return s.system.Release()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FinishTimeout)
	defer cancel()
	s.System.Log("restoring the cluster as it was created")
	return errors.Join(wrap.Errorf(s.system.Reset(ctx), "restore the cluster"), s.system.Release())
}

// Running is the system that SetUp brought up; nil before it, or if none can be.
func (s *Session) Running() *system.System { return s.system }

// Folder is where the run's files go; empty before SetUp.
func (s *Session) Folder() string { return s.folder.Path }

// Report holds what was found so far; nil before SetUp.
func (s *Session) Report() *reports.Report { return s.report }

// NoSystem is why no drill can be played at all, not even with another handler, or "".
func (s *Session) NoSystem() string {
	if s.system != nil {
		return ""
	}
	return s.cannot
}

// Cannot is why nothing can be drilled here, or with this handler, such as an image that cannot be had; "" if that is
// possible.
func (s *Session) Cannot() string { return s.cannot }

// Unrestored is the folder of the attempt after which the cluster was left as it was, or "".
func (s *Session) Unrestored() string { return s.unrestored }

// Again is the command that plays the latest drill again; "" before the first one.
func (s *Session) Again() string {
	if s.report == nil {
		return ""
	}
	for _, e := range slices.Backward(s.report.Results) {
		if e.History != "" {
			return s.report.Reproduce(e)
		}
	}
	return ""
}
