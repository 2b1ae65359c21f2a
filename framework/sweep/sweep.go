// Package sweep drills a matrix of DNS settings in sessions, saves each measurement so
// that it can be interrupted, and reports which settings are safe.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Options define what is drilled, and where.
type Options struct {
	Sweep   scenarios.Sweep
	Handler handler.Description
	System  system.Options
	// Out is the folder of the results. What has a result there is not drilled again.
	Out string
	// FirstSafe ends the sweep with the smallest cell that is safe, and skips the rest of
	// a cell as soon as it lost a query.
	FirstSafe bool
	Console   io.Writer
}

// trial is one repeat of a cell.
type trial struct {
	cell     scenarios.Cell
	repeat   int
	scenario scenarios.Scenario
}

// pending are the trials without a result yet: those of a cell one after the other,
// since CoreDNS keeps its settings between them.
func (o Options) pending(results *store) ([]trial, error) {
	var out []trial
	for _, cell := range o.Sweep.Cells() {
		if cell.Impossible != "" {
			continue
		}
		for n := 1; n <= o.Sweep.Repeats; n++ {
			if _, ok := results.known(cell.Name(), n); ok {
				continue
			}
			scenario, err := o.Sweep.Scenario(cell, n)
			if err != nil {
				return nil, err
			}
			out = append(out, trial{cell, n, scenario})
		}
	}
	return out, nil
}

func (o Options) results() (*store, error) {
	return openStore(o.Out, digest(o.Sweep, o.Handler.Name+" "+o.Handler.Version, strings.TrimSpace(string(o.System.ProxyMode)+" "+o.System.Versions.Flags())))
}

// Known is what earlier runs found, without a drill; left is about how long the missing
// drills take.
func Known(o Options) (t Table, left time.Duration, err error) {
	results, err := o.results()
	if err != nil {
		return Table{}, 0, err
	}
	pending, err := o.pending(results)
	for _, d := range pending {
		left += session.Expected(d.scenario, o.Sweep.Set)
	}
	return newTable(o.Sweep, results), left, err
}

// Run drills what has no result yet. The table holds what is known, also if the run ended
// early; an ended context is not an error of its own.
func Run(ctx context.Context, o Options) (Table, error) {
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return Table{}, fmt.Errorf("make the sweep's folder: %w", err)
	}
	results, err := o.results()
	if err != nil {
		return Table{}, err
	}
	pending, err := o.pending(results)
	if err != nil {
		return Table{}, err
	}
	if known := newTable(o.Sweep, results); len(pending) == 0 || o.FirstSafe && known.found() {
		return known, nil
	}
	err = o.play(ctx, pending, results)
	return newTable(o.Sweep, results), err
}

// play plays the trials in one session.
func (o Options) play(ctx context.Context, pending []trial, results *store) error {
	opts := session.Options{Handler: o.Handler, Set: o.Sweep.Set, System: o.System, Out: filepath.Join(o.Out, "runs"), Console: o.Console}
	for _, d := range pending {
		opts.Scenarios = append(opts.Scenarios, d.scenario)
	}
	run, err := session.New(opts)
	if err != nil {
		return err
	}
	var played []scenarios.Scenario
	broken := run.SetUp(ctx)
	switch {
	case ctx.Err() != nil:
		broken = nil
	case broken == nil:
		played, broken = o.playAll(ctx, run, pending, results)
	}
	// Trials that were skipped, or interrupted, are not missing in the report.
	run.Scenarios = played
	return errors.Join(broken, run.Finish(context.WithoutCancel(ctx)))
}

func (o Options) playAll(ctx context.Context, run *session.Session, pending []trial, results *store) (played []scenarios.Scenario, err error) {
	if reason := run.NotApplicable(pending[0].scenario); reason != "" {
		return nil, fmt.Errorf("the matrix cannot be drilled: %s", reason)
	}
	for _, d := range pending {
		if ctx.Err() != nil || o.FirstSafe && newTable(o.Sweep, results).found() {
			break
		}
		if o.FirstSafe && newResult(o.Sweep, d.cell, results).State == Loses {
			continue
		}
		played = append(played, d.scenario)
		entry, broke := run.Drill(ctx, d.scenario)
		if ctx.Err() != nil {
			break // it was cut short and shows nothing
		}
		if broke == nil {
			broke = results.add(newMeasurement(d, entry, run.Report().Run))
		}
		if err = errors.Join(err, broke); errors.Is(broke, session.ErrOver) {
			break
		}
	}
	return played, err
}

// newMeasurement is the result of a trial. One that failed for another reason than a
// lost query shows nothing about the settings.
func newMeasurement(d trial, e reports.Entry, run string) measurement {
	p := measurement{Cell: d.cell.Name(), Repeat: d.repeat, Outcome: verdict.Unknown, Attempts: e.Attempts, Played: time.Now().UTC().Truncate(time.Second)}
	p.History = filepath.ToSlash(filepath.Join("runs", run, e.History))
	if e.DNS != nil {
		p.Fresh, p.Fixed, p.Control = newCount(e.DNS.Fresh), newCount(e.DNS.Fixed), newCount(e.DNS.Control)
	}
	for _, v := range e.Verdicts {
		if counted := v.Counted; counted != nil {
			fresh, fixed := newCount(counted.Fresh), newCount(counted.Fixed)
			fresh.Conntrack, fixed.Conntrack = p.Fresh.Lost-fresh.Lost, p.Fixed.Lost-fixed.Lost
			p.Fresh, p.Fixed = fresh, fixed
		}
		if v.ID == verdict.IDOfDNSLost && v.Outcome == verdict.Fail {
			p.Outcome, p.Why = verdict.Fail, v.Got
			return p
		}
		if v.Outcome != verdict.Pass && p.Why == "" {
			p.Why = v.Check + ": " + v.Got
		}
	}
	if e.Outcome == verdict.Pass {
		p.Outcome = verdict.Pass
	}
	return p
}

func newCount(s loss.Stream) count {
	longest, _ := s.Longest()
	return count{Asked: s.Asked, Lost: s.Lost, Window: float64(longest.Length().Microseconds()) / 1000}
}
