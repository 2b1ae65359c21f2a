package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/sweep"
	"github.com/spotdrill/spotdrill/scenarios"
)

func newSweepCommand() *cobra.Command {
	var opts sweep.Options
	var under string
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:       "sweep MATRIX",
		Short:     "Drill a matrix of DNS settings and report which of them lose no query",
		Args:      cobra.ExactArgs(1),
		ValidArgs: scenarios.Sweeps(),
		RunE: func(cmd *cobra.Command, args []string) error {
			loader, err := checkedSystem(cmd, &opts.System)
			if err != nil {
				return err
			}
			matrix, err := loader.LoadSweep(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			if opts.Handler, err = handlerAt(under, opts.System.Versions); err != nil {
				return exitError{exitUsage, err}
			}
			opts.Sweep, opts.Console = matrix, cmd.ErrOrStderr()
			opts.Out = filepath.Join(opts.Out, matrix.Name)
			if dryRun {
				return planSweep(cmd, opts, asJSON)
			}
			table, err := sweepAll(cmd.Context(), opts)
			if shown := printSweep(cmd, table, asJSON); err == nil {
				err = shown
			}
			if err != nil {
				return err
			}
			printf(cmd.ErrOrStderr(), "wrote %s, %s and %s to %s\n", sweep.PageFile, sweep.CSVFile, sweep.ResultsFile, opts.Out)
			return swept(cmd.Context(), table)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "only print the cells and their known results")
	flags.BoolVar(&asJSON, "json", false, "print the cells as a JSON array")
	flags.StringVar(&opts.Out, "out", "reports/out/sweeps", "`folder` for results; each matrix gets its own subfolder")
	systemFlags(flags, &opts.System)
	handlerFlags(cmd, &under, &opts.System)
	return cmd
}

// planSweep prints the known results and how long the missing drills take.
func planSweep(cmd *cobra.Command, opts sweep.Options, asJSON bool) error {
	table, left, err := sweep.Known(opts)
	if err != nil {
		return exitError{exitUsage, err}
	}
	if err := printSweep(cmd, table, asJSON); err != nil {
		return err
	}
	printf(cmd.ErrOrStderr(), "the missing drills take about %.0f s plus the set-up\n", left.Seconds())
	return nil
}

// printSweep prints the table; nothing if there is none.
func printSweep(cmd *cobra.Command, t sweep.Table, asJSON bool) error {
	return show(cmd, asJSON && len(t.Cells) > 0, t.Cells, t.WriteText)
}

// sweepAll plays the missing drills and writes the table to the sweep's folder.
func sweepAll(ctx context.Context, opts sweep.Options) (sweep.Table, error) {
	if _, _, err := sweep.Known(opts); err != nil {
		return sweep.Table{}, exitError{exitUsage, err}
	}
	table, err := sweep.Run(ctx, opts)
	if len(table.Cells) == 0 {
		return table, err
	}
	return table, errors.Join(err, table.Write(opts.Out))
}

// swept turns a table into an error with the exit code.
func swept(ctx context.Context, t sweep.Table) error {
	switch _, ok := t.Smallest(); {
	case ctx.Err() != nil:
		return exitError{exitUnknown, errors.New("interrupted; the same command continues")}
	case ok:
		return nil
	case t.Count(sweep.Unknown) > 0:
		return exitError{exitUnknown, errors.New(t.Verdict())}
	}
	return exitError{exitFailed, errors.New(t.Verdict())}
}
