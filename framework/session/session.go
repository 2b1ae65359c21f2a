// Package session holds a handler to scenarios: it brings the system up, plays
// and judges every scenario, repeats what could not be judged, and writes the
// reports. The command line and the suites both go this way.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// FinishTimeout bounds putting the cluster back and writing the reports.
const FinishTimeout = 6 * time.Minute

// Options say which handler is held to what, and where.
type Options struct {
	Handler handler.Description
	// HandlerImage is one that the container engine holds; empty: the description's.
	HandlerImage string
	Set          scenarios.Set
	Scenarios    []scenarios.Scenario // in the order in which they are drilled
	// Repeat is how often each is drilled, so that a flake shows; 0 means once.
	Repeat int
	// System is brought up; its Log is the session's.
	System run.Options
	// Out is the folder in which the run gets a folder of its own.
	Out string
	// Keep leaves the cluster as the first drill left it that did not pass, and
	// ends the run there.
	Keep bool
	// Console is where progress goes. More is how many drills it should announce
	// beyond Scenarios.
	Console io.Writer
	More    int
}

// ErrOver is why no further drill can be played: a part of the system has died, or
// the handler cannot be installed.
var ErrOver = errors.New("the run ends here")

// Session is one run over scenarios. Its methods are called in this order: SetUp,
// then Drill for the scenarios in theirs, then Finish, whatever became of these.
type Session struct {
	Options

	system  *run.System
	folder  reports.Folder
	report  *reports.Report
	console *reports.Console
	started time.Time
	drills  time.Time // the first drill's start
	cannot  string    // why nothing can be drilled here, or ""
	left    string    // the folder of the attempt that the cluster was left after

	// played are the scenarios that had an attempt beside another; ahead are the
	// entries of those that passed so before their turn came.
	played map[string]bool
	ahead  map[string]reports.Entry
}

// New is a session that has not begun. A deviation, or a reason to keep messages, in
// the handler's description that names no clause is an error.
func New(opts Options) (*Session, error) {
	all, err := scenarios.Catalogue()
	if err != nil {
		return nil, err
	}
	var clauses []string
	for _, s := range slices.Concat(all, opts.Scenarios) {
		clauses = append(clauses, s.Name)
	}
	if err := opts.Handler.CheckClauses(clauses); err != nil {
		return nil, err
	}
	s := &Session{
		Options: opts, started: time.Now(),
		console: reports.NewConsole(opts.Console, len(opts.Scenarios)+opts.More),
		played:  map[string]bool{}, ahead: map[string]reports.Entry{},
	}
	s.System.Log = func(format string, args ...any) { fmt.Fprintf(s.console, format+"\n", args...) }
	return s, nil
}

// SetUp brings the system up. A report is begun before, so that a set-up that
// fails leaves one that says so.
func (s *Session) SetUp(ctx context.Context) error {
	var err error
	if s.folder, err = reports.NewFolder(s.Out, s.started); err != nil {
		return err
	}
	meta := s.Handler.Meta()
	s.report = reports.New(s.folder, reports.Handler{Name: meta.Name, Version: meta.Version, Description: s.Handler.Reference(), Image: s.HandlerImage}, s.Set, nil)
	s.System.Log("setting the system up (about 10 min where images must be built, else less than a minute)")
	s.system, err = run.Up(ctx, s.System)
	if errors.Is(err, run.ErrNoIPVS) {
		s.cannot = err.Error()
		s.report.Environment = map[string]string{"kube-proxy": string(s.System.ProxyMode)}
		return nil
	}
	if err != nil {
		return fmt.Errorf("set-up: %w", err)
	}
	err = s.system.Provide(ctx, s.Handler, s.HandlerImage)
	// In a description of one's own the reference may as well be misspelt.
	if errors.Is(err, run.ErrNoImage) && s.Handler.Embedded() {
		s.cannot, err = err.Error(), nil
	}
	if err != nil {
		return fmt.Errorf("set-up: the handler's image: %w", err)
	}
	s.report.Environment = s.system.Environment
	s.report.Handler.Version = s.system.Meta(s.Handler).Version
	s.report.Timings.Setup = reports.Seconds(time.Since(s.started))
	s.System.Log("set-up took %.0f s; the drills ask for about %.0f s", time.Since(s.started).Seconds(), s.expected().Seconds())
	s.drills = time.Now()
	return nil
}

func (s *Session) expected() time.Duration {
	total := time.Duration(0)
	for _, scenario := range s.Scenarios {
		if s.NotApplicable(scenario) == "" {
			total += Expected(scenario, s.Set) * time.Duration(max(1, s.Repeat))
		}
	}
	return total
}

// Expected is what the scenario asks for, and what arranging and restoring
// usually take.
func Expected(scenario scenarios.Scenario, set scenarios.Set) time.Duration {
	const around = 9 * time.Second
	return scenario.Expected(set) + around
}

// NotApplicable says why the scenario is not played with the handler, or "".
func (s *Session) NotApplicable(scenario scenarios.Scenario) string {
	switch {
	case s.cannot != "":
		return s.cannot
	case scenario.Handler == scenarios.HandlerNone, scenario.Core(), scenario.Feature == "", s.Handler.Claims(scenario.Feature):
		return ""
	}
	return fmt.Sprintf("not supported: the description of %s does not claim %s", s.Handler.Name, scenario.Feature)
}

// Drill plays and judges one scenario and reports it, or skips it where it does
// not apply. It may play another at the same time, which its own turn then finds
// done. A drill that could not be judged is played again, and the last attempt
// counts. The error is the harness's own; it is ErrOver where no further
// drill can be played, and neither can one be once Left says something. The entry
// is in the report in every case.
func (s *Session) Drill(ctx context.Context, scenario scenarios.Scenario) (reports.Entry, error) {
	s.console.Begin(scenario.Name)
	if reason := s.NotApplicable(scenario); reason != "" {
		entry := reports.NewEntry(verdict.Skip(scenario, reason))
		s.console.End(entry)
		s.report.Add(entry)
		return entry, nil
	}
	entry, err := s.drill(ctx, scenario)
	s.report.Add(entry)
	s.console.End(entry)
	if err != nil {
		if dead := s.system.Alive(ctx); dead != nil {
			return entry, fmt.Errorf("%w: %w", ErrOver, dead)
		}
		if errors.Is(err, run.ErrNotInstalled) {
			return entry, fmt.Errorf("%w: %w", ErrOver, err)
		}
		err = fmt.Errorf("drill: %w", err)
	}
	return entry, err
}

// drill plays a scenario, beside another where that can be, else or again alone.
func (s *Session) drill(ctx context.Context, scenario scenarios.Scenario) (reports.Entry, error) {
	if entry, ok := s.ahead[scenario.Name]; ok {
		return entry, nil
	}
	if partner, ok := s.partner(scenario); ok {
		if entry, done, err := s.together(ctx, scenario, partner); done || err != nil {
			return entry, err
		}
	}
	return s.repeat(ctx, scenario)
}

// SelfCheck plays a scenario with a handler that never acts, under the announced
// name. It is not in the report.
func (s *Session) SelfCheck(ctx context.Context, scenario scenarios.Scenario, idle handler.Description) (reports.Entry, error) {
	folder := s.folder
	folder.Path = filepath.Join(folder.Path, "self-check")
	s.console.Begin("self-check: a handler that does nothing")
	entry, err := s.play(ctx, folder, scenario, idle, 1, false)
	if err == nil && entry.Outcome == verdict.Fail {
		s.console.Conclude(fmt.Sprintf("fails %s, as it must, after %.0f s", scenario.Name, time.Duration(entry.Measured).Seconds()))
	} else {
		s.console.End(entry)
	}
	return entry, err
}

// Finish puts everything back and writes what there is, however the run ended.
func (s *Session) Finish(ctx context.Context) error {
	if s.report == nil {
		return nil
	}
	if !s.drills.IsZero() {
		s.report.Timings.Drills = reports.Seconds(time.Since(s.drills))
	}
	for _, scenario := range s.Scenarios[len(s.report.Results):] {
		entry, ok := s.ahead[scenario.Name]
		if !ok {
			entry = reports.NewEntry(verdict.NotRun(scenario, "the run ended before it"))
		}
		s.report.Add(entry)
	}
	written := s.folder.Write(s.report)
	s.console.Summary(s.report)
	if s.system == nil || s.left != "" {
		return written
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FinishTimeout)
	defer cancel()
	s.System.Log("putting the cluster back as it was made")
	if err := s.system.Finish(ctx); err != nil {
		return errors.Join(written, fmt.Errorf("put the cluster back: %w", err))
	}
	return written
}

// Report is what was found so far; nil before SetUp.
func (s *Session) Report() *reports.Report { return s.report }

// NoSystem says why no drill can be played at all, not even with another handler,
// or "".
func (s *Session) NoSystem() string {
	if s.system != nil {
		return ""
	}
	return s.cannot
}

// Left is the folder of the attempt that the cluster was left after, or "".
func (s *Session) Left() string { return s.left }

// Again is the command that plays the latest drill once more; "" before there was
// one.
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
