package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/sweep"
	"github.com/spotdrill/spotdrill/scenarios"
)

func newSweepCommand() *cobra.Command {
	var opts sweep.Options
	var under string
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "sweep FILE",
		Short: "Drill a matrix of DNS settings, and say which of them lose no query",
		Long: `Sweep plays a scenario with every combination of the settings in a matrix file,
each several times, and prints for each cell what was lost, the longest windows,
and the upper confidence bound of the loss rate. Results are kept as they come:
with Ctrl-C it ends after putting the cluster back, and the same command goes on
where it was. More repeats or cells may be added to the file meanwhile.

The table is also left as CSV, as the data of a heat map, and as a page.

Exit code 0: a setting is known to be safe; 1: none of the matrix is; 2: some are
not known and none of the others is safe; 70: the harness itself broke.`,
		Example: `  spotdrill sweep scenarios/sweeps/lameduck-by-readiness.yaml --dry-run
  spotdrill sweep my-matrix.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSystem(opts.System); err != nil {
				return err
			}
			matrix, err := scenarios.LoadSweep(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			if opts.Handler, err = handler.Load(under); err != nil {
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
			fmt.Fprintf(cmd.ErrOrStderr(), "%s, %s and %s are in %s\n", sweep.PageFile, sweep.CSVFile, sweep.ResultsFile, opts.Out)
			return swept(cmd.Context(), table)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "only print the cells and what is known of them")
	flags.BoolVar(&asJSON, "json", false, "print the cells as a JSON array")
	flags.StringVar(&opts.Out, "out", "reports/out/sweeps", "`folder` in which each matrix has a folder of its own")
	flags.StringVar(&under, "handler", "builtin", "the `handler` that drains: "+strings.Join(handler.Names(), ", ")+", or the path of a description")
	systemFlags(flags, &opts.System)
	return cmd
}

// planSweep prints what is known, and what a run would add to it.
func planSweep(cmd *cobra.Command, opts sweep.Options, asJSON bool) error {
	table, left, err := sweep.Known(opts)
	if err != nil {
		return exitError{exitUsage, err}
	}
	if err := printSweep(cmd, table, asJSON); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "what is missing takes about %.0f s and the set-up\n", left.Seconds())
	return nil
}

// printSweep prints the table; nothing where it could not be made.
func printSweep(cmd *cobra.Command, t sweep.Table, asJSON bool) error {
	if asJSON && len(t.Cells) > 0 {
		return writeJSON(cmd.OutOrStdout(), t.Cells)
	}
	return t.WriteText(cmd.OutOrStdout())
}

// sweepAll drills what is missing, and leaves the table in the sweep's folder.
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

// swept is the error, and so the exit code, that a table calls for.
func swept(ctx context.Context, t sweep.Table) error {
	switch _, ok := t.Smallest(); {
	case ctx.Err() != nil:
		return exitError{exitUnknown, errors.New("interrupted; the same command goes on where it was")}
	case ok:
		return nil
	case t.Count(sweep.Unknown) > 0:
		return exitError{exitUnknown, errors.New(t.Verdict())}
	}
	return exitError{exitFailed, errors.New(t.Verdict())}
}
