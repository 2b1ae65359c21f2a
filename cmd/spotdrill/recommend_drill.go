package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/recommend"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/sweep"
	"github.com/spotdrill/spotdrill/scenarios"
)

// builtInSweep is drilled where no matrix is named.
const builtInSweep = "lameduck-by-readiness"

// drillOptions are the flags of recommend --drill.
type drillOptions struct {
	wanted, standIn bool
	matrix, out     string
	confidence      float64
	repeats         int
	system          run.Options
}

func (o *drillOptions) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.wanted, "drill", false, "measure, on spotdrill's own cluster, which setting loses nothing")
	flags.BoolVar(&o.standIn, "stand-in", false, "with --drill: drill spotdrill's own cluster in the place of the one that is read")
	flags.StringVar(&o.matrix, "matrix", "", "with --drill: `file` of the matrix; "+builtInSweep+" without it")
	flags.Float64Var(&o.confidence, "confidence", 0, "with --drill: the confidence of the loss rate's bound; the matrix's without it")
	flags.IntVar(&o.repeats, "repeats", 0, "with --drill: drills of each setting; the matrix's without it")
	flags.StringVar(&o.out, "out", "reports/out/sweeps", "with --drill: `folder` in which each matrix has a folder of its own")
	systemFlags(flags, &o.system)
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
	s.Confidence, s.Repeats = cmp.Or(o.confidence, s.Confidence), cmp.Or(o.repeats, s.Repeats)
	return s, s.Check()
}

// advise drills the matrix up to the first safe setting, and advises that one.
func (o drillOptions) advise(cmd *cobra.Command, dns deployed) (recommend.Advice, error) {
	matrix, err := o.sweep()
	if err != nil {
		return recommend.Advice{}, exitError{exitUsage, err}
	}
	named := dns.kubeconfig != "" || dns.context != ""
	var found reading
	if named {
		if found, err = dns.read(cmd.Context()); err != nil {
			return recommend.Advice{}, err
		}
		if !found.own && !o.standIn {
			return recommend.Advice{}, usage("--drill takes nodes away, and this cluster is not spotdrill's own: nothing was drilled; with --stand-in spotdrill's own cluster is drilled in its place, and this one is only read")
		}
	}
	under, err := handler.Load("builtin")
	if err != nil {
		return recommend.Advice{}, err
	}
	table, err := sweepAll(cmd.Context(), sweep.Options{
		Sweep: matrix, Handler: under, System: o.system, Out: filepath.Join(o.out, matrix.Name), FirstSafe: true, Console: cmd.ErrOrStderr(),
	})
	if err = errors.Join(err, table.WriteText(cmd.ErrOrStderr())); err != nil {
		return recommend.Advice{}, err
	}
	if err := swept(cmd.Context(), table); err != nil {
		return recommend.Advice{}, err
	}
	if !named {
		if dns.kubeconfig, err = run.Kubeconfig(o.system.Cluster); err != nil {
			return recommend.Advice{}, err
		}
		if found, err = dns.read(cmd.Context()); err != nil {
			return recommend.Advice{}, err
		}
	}
	a, err := recommend.New(found.DNS)
	if err != nil {
		return a, err
	}
	r, _ := table.Smallest()
	evidence := fmt.Sprintf("%s; drills in %s", table.Verdict(), filepath.Join(o.out, matrix.Name))
	return a.Measured(r.Lameduck.D(), r.Readiness.Period.D(), r.Readiness.FailureThreshold, evidence)
}
