package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/recommend"
	"github.com/spotdrill/spotdrill/framework/sweep"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// builtInSweep is drilled where no matrix is named.
const builtInSweep = "lameduck-by-readiness"

// lossyDrills is which share of drills may lose anything, as far as the drills of a
// setting show: 9 without a loss show it at confidence 0.95, 13 at 0.99. A drill takes
// about a minute; 59 would show a share of 5 % at 0.95.
const lossyDrills = 0.3

// drillOptions are the flags of recommend --drill.
type drillOptions struct {
	given           *pflag.FlagSet // those that only --drill has a use for
	wanted, standIn bool
	matrix, out     string
	confidence      float64
	repeats         int
	system          system.Options
}

func (o *drillOptions) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.wanted, "drill", false, "measure, on spotdrill's own cluster, which setting loses nothing")
	o.given = pflag.NewFlagSet("drill", pflag.ContinueOnError)
	o.given.BoolVar(&o.standIn, "stand-in", false, "with --drill: drill spotdrill's own cluster in the place of the one that is read")
	o.given.StringVar(&o.matrix, "matrix", "", "with --drill: `file` of the matrix; "+builtInSweep+" without it")
	o.given.Float64Var(&o.confidence, "confidence", 0, "with --drill: the confidence of both bounds, 0.5 to less than 1; the matrix's without it")
	o.given.IntVar(&o.repeats, "repeats", 0, fmt.Sprintf("with --drill: drills of each setting; without it the matrix's, and at least what the confidence takes for %.0f %% of drills", lossyDrills*100))
	o.given.StringVar(&o.out, "out", "reports/out/sweeps", "with --drill: `folder` in which each matrix has a folder of its own")
	systemFlags(o.given, &o.system)
	flags.AddFlagSet(o.given)
}

// unused is an error that names the flags that say nothing without --drill.
func (o drillOptions) unused() error {
	var names []string
	o.given.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) == 0 {
		return nil
	}
	return usage("%s: only with --drill", strings.Join(names, ", "))
}

// sweep is the matrix as the flags want it.
func (o drillOptions) sweep() (scenarios.Sweep, error) {
	load := func() (scenarios.Sweep, error) { return scenarios.LoadSweep(o.matrix) }
	if o.matrix == "" {
		load = func() (scenarios.Sweep, error) { return scenarios.BuiltInSweep(builtInSweep) }
	}
	s, err := load()
	if err != nil {
		return s, err
	}
	if o.given.Lookup("confidence").Changed {
		s.Confidence = o.confidence
	}
	if o.given.Lookup("repeats").Changed {
		s.Repeats = o.repeats
	} else if s.Check() == nil { // of a confidence of 1 no number of drills is enough
		s.Repeats = max(s.Repeats, sweep.DrillsFor(lossyDrills, s.Confidence))
	}
	return s, s.Check()
}

// advise drills the matrix up to the first safe setting, and prints the advice for
// that one; where none is safe, for settings that keep the rules.
func (o drillOptions) advise(cmd *cobra.Command, dns deployed, asJSON bool) error {
	if err := checkSystem(o.system); err != nil {
		return err
	}
	matrix, err := o.sweep()
	if err != nil {
		return exitError{exitUsage, err}
	}
	named := dns.kubeconfig != "" || dns.context != ""
	var found reading
	if named {
		if found, err = dns.read(cmd.Context()); err != nil {
			return err
		}
		if !found.own && !o.standIn {
			return usage("--drill takes nodes away, and this cluster is not spotdrill's own: nothing was drilled; with --stand-in spotdrill's own cluster is drilled in its place, and this one is only read")
		}
	}
	under, err := handler.Load("builtin")
	if err != nil {
		return err
	}
	table, err := sweepAll(cmd.Context(), sweep.Options{
		Sweep: matrix, Handler: under, System: o.system, Out: filepath.Join(o.out, matrix.Name), FirstSafe: true, Console: cmd.ErrOrStderr(),
	})
	if err = errors.Join(err, table.WriteText(cmd.ErrOrStderr())); err != nil {
		return err
	}
	unsafe := swept(cmd.Context(), table)
	if cmd.Context().Err() != nil {
		return unsafe
	}
	if !named {
		if dns.kubeconfig, err = system.Kubeconfig(o.system.Cluster); err != nil {
			return errors.Join(unsafe, err)
		}
		if found, err = dns.read(cmd.Context()); err != nil {
			return errors.Join(unsafe, err)
		}
	}
	a, err := recommend.New(found.DNS)
	if err != nil {
		return errors.Join(unsafe, err)
	}
	if r, ok := table.Smallest(); ok {
		evidence := fmt.Sprintf("%s; drills in %s", table.Verdict(), filepath.Join(o.out, matrix.Name))
		if a, err = a.Measured(r.Lameduck.D(), r.Readiness.Period.D(), r.Readiness.FailureThreshold, evidence); err != nil {
			return err
		}
	}
	broken := printAdvice(cmd, a, asJSON)
	if codeOf(unsafe) == exitFailed {
		return errors.Join(unsafe, broken) // the first one's exit code counts
	}
	return errors.Join(broken, unsafe)
}
