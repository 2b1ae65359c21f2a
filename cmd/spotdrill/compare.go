package main

import (
	"fmt"
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
		Short: "Compare the reports of several runs, or one report with earlier nights",
		Long: `Compare prints a table of scenarios and reports: each outcome, and the scenario's
main figure (the longest DNS window, or the duration of the drain). "-" means that
the report does not have the scenario. Differences between the environments are
listed below the table: figures are only as comparable as the machines.

With --same the exit code is 1 if a scenario did not have the same outcome in every
report. Unknown never matches, not even Unknown. Use it to check that a handler
still has its known outcomes, including its known failures.

With --against (repeatable) one report is compared with earlier reports of the same
handler and set on the same number of cores. A figure above their 95th percentile
is a warning; above the 99th, it has drifted. A figure counts as above only if it
exceeds the percentile by more than 10 % and by more than 100 ms.

Exit code with --against 0: nothing drifted; 1: something drifted; 2: too few
earlier nights to evaluate any figure.`,
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
				return usage("--same compares reports with each other, --against compares one with earlier nights: use only one of them")
			case same && len(loaded) < 2:
				return usage("--same compares reports with each other, and only one is given")
			case len(against) > 0:
				if len(loaded) != 1 {
					return usage("--against compares one report with earlier ones, and %d are given", len(loaded))
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
	cmd.Flags().BoolVar(&same, "same", false, "exit with code 1 unless each scenario has the same outcome in every report")
	cmd.Flags().StringArrayVar(&against, "against", nil, "`folder` of earlier runs, or one of their reports; repeatable")
	cmd.Flags().IntVar(&atLeast, "at-least", 20, "number of earlier figures required to evaluate one")
	return cmd
}

func printMatrix(cmd *cobra.Command, m reports.Matrix, asJSON, same bool) error {
	if err := show(cmd, asJSON, m, m.WriteText); err != nil {
		return err
	}
	if !same {
		return nil
	}
	if differing := m.Differing(); len(differing) > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %d scenarios do not have the same outcome in every report: %s", len(differing), len(m.Scenarios), strings.Join(differing, ", "))}
	}
	return nil
}

func printDrift(cmd *cobra.Command, d reports.Drift, asJSON bool) error {
	if err := show(cmd, asJSON, d, d.WriteText); err != nil {
		return err
	}
	switch drifted := d.Count(reports.Drifted); {
	case drifted > 0:
		return exitError{exitFailed, fmt.Errorf("%d of %d figures have drifted", drifted, len(d.Figures))}
	case d.Count(reports.TooFew) == len(d.Figures):
		return exitError{exitUnknown, fmt.Errorf("no figure has %d earlier nights, the number required to evaluate drift", d.AtLeast)}
	}
	return nil
}
