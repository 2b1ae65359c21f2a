package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/reports"
)

func newCompareCommand() *cobra.Command {
	var asJSON, same bool
	var against []string
	var atLeast int
	cmd := &cobra.Command{
		Use:   "compare REPORT...",
		Short: "Set the reports of several runs against each other, or one against earlier nights",
		Long: `Compare prints a table of scenarios and reports: each outcome, and the figure
that the scenario is about (the longest DNS window, or how long the drain took).
A report that does not have a scenario shows "-". What differs between the
environments stands under the table: figures are comparable only as far as the
machines are.

With --same the exit code is 1 where a scenario did not end alike in every report;
Unknown is like nothing. So a handler is held to what is known of it, the clauses
that it breaks included.

With --against, which may be given several times, one report is held to earlier
ones, of the same handler and set on as many cores: a figure beyond their 95th
percentile is a warning, one beyond the 99th has drifted. What lies within a
tenth, or within 100 ms, of a percentile is not beyond it.

Exit code with --against 0: nothing drifted; 1: something did; 2: too few earlier
nights to say so of any figure.`,
		Example: `  spotdrill compare reports/published/*/report.yaml
  spotdrill compare --same reports/published/builtin/report.yaml reports/out/latest/report.yaml
  spotdrill compare reports/out/latest/report.yaml --against nights/`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := reports.LoadAll(args)
			if err != nil {
				return exitError{exitUsage, err}
			}
			switch {
			case same && len(against) > 0:
				return usage("--same holds reports to each other, --against one to earlier nights: give one of the two")
			case same && len(loaded) < 2:
				return usage("--same holds reports to each other, and one is given")
			case len(against) > 0:
				if len(loaded) != 1 {
					return usage("--against holds one report to earlier ones, and %d are given", len(loaded))
				}
				earlier, err := reports.LoadAll(against)
				if err != nil {
					return exitError{exitUsage, fmt.Errorf("--against: %w", err)}
				}
				return printDrift(cmd, reports.FindDrift(loaded[0], earlier, atLeast), asJSON)
			}
			return printMatrix(cmd, reports.Compare(loaded), asJSON, same)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&same, "same", false, "fail where a scenario did not end alike in every report")
	cmd.Flags().StringArrayVar(&against, "against", nil, "`folder` of earlier runs, or one of their reports")
	cmd.Flags().IntVar(&atLeast, "at-least", 20, "how many earlier figures there must be to hold one to them")
	return cmd
}

func printMatrix(cmd *cobra.Command, m reports.Matrix, asJSON, same bool) error {
	write := m.WriteText
	if asJSON {
		write = m.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if !same {
		return nil
	}
	if differing := m.Differing(); len(differing) > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %d scenarios did not end alike: %s", len(differing), len(m.Scenarios), strings.Join(differing, ", "))}
	}
	return nil
}

func printDrift(cmd *cobra.Command, d reports.Drift, asJSON bool) error {
	write := d.WriteText
	if asJSON {
		write = func(w io.Writer) error { return writeJSON(w, d) }
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	switch drifted := d.Count(reports.Drifted); {
	case drifted > 0:
		return exitError{exitFailed, fmt.Errorf("%d of %d figures have drifted", drifted, len(d.Figures))}
	case d.Count(reports.TooFew) == len(d.Figures):
		return exitError{exitUnknown, fmt.Errorf("no figure has the %d earlier nights that it takes to speak of drift", d.AtLeast)}
	}
	return nil
}
