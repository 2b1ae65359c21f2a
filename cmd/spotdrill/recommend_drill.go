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
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// builtInSweep is the default matrix.
const builtInSweep = "lameduck-by-readiness"

// lossyDrills is the share of drills that may lose anything with a setting that counts
// as safe. 9 drills without a loss show it at confidence 0.95, 13 at 0.99. A drill
// takes about a minute; a share of 5 % at 0.95 would take 59.
const lossyDrills = 0.3

// drillOptions are the flags of recommend --drill.
type drillOptions struct {
	given           *pflag.FlagSet // flags that only apply with --drill
	wanted, standIn bool
	matrix, out     string
	confidence      float64
	repeats         int
	system          system.Options
}

func (o *drillOptions) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.wanted, "drill", false, "measure on spotdrill's own cluster which setting loses nothing")
	o.given = pflag.NewFlagSet("drill", pflag.ContinueOnError)
	o.given.BoolVar(&o.standIn, "stand-in", false, "with --drill: drill spotdrill's own cluster instead of the one that is read")
	o.given.StringVar(&o.matrix, "matrix", "", "with --drill: `file` of the matrix; the default is "+builtInSweep)
	o.given.Float64Var(&o.confidence, "confidence", 0, "with --drill: confidence of both bounds, 0.5 to less than 1; the default is that of the matrix")
	o.given.IntVar(&o.repeats, "repeats", 0, fmt.Sprintf("with --drill: drills of each setting; the default is that of the matrix, and at least the number that the confidence requires for %.0f %% of drills", lossyDrills*100))
	o.given.StringVar(&o.out, "out", "reports/out/sweeps", "with --drill: `folder` for results; each matrix gets its own subfolder")
	systemFlags(o.given, &o.system)
	flags.AddFlagSet(o.given)
}

// unused returns an error that names the given flags that require --drill.
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
	return usage("%s: requires --drill", strings.Join(names, ", "))
}

// sweep is the matrix with the changes of the flags.
func (o drillOptions) sweep() (scenarios.Sweep, error) {
	load := func() (scenarios.Sweep, error) { return verdict.Scenarios().LoadSweep(o.matrix) }
	if o.matrix == "" {
		load = func() (scenarios.Sweep, error) { return verdict.Scenarios().BuiltInSweep(builtInSweep) }
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
	} else if s.Check() == nil { // no number of drills shows a confidence of 1
		s.Repeats = max(s.Repeats, sweep.DrillsFor(lossyDrills, s.Confidence))
	}
	return s, s.Check()
}

// advise drills the matrix up to the first safe setting and prints the advice for it.
// If none is safe, the advice is for settings that keep the rules.
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
			return usage("--drill reclaims nodes, and this cluster is not spotdrill's own, so nothing was drilled; use --stand-in to drill spotdrill's own cluster and only read this one")
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
		if a, err = a.Measured(r.Settings, evidence); err != nil {
			return err
		}
	}
	broken := printAdvice(cmd, a, asJSON)
	if codeOf(unsafe) == exitFailed {
		return errors.Join(unsafe, broken) // the first one's exit code counts
	}
	return errors.Join(broken, unsafe)
}
