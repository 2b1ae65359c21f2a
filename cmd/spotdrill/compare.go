package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/reports"
)

func newCompareCommand() *cobra.Command {
	var asJSON, same bool
	var against, before []string
	var atLeast int
	var page string
	cmd := &cobra.Command{
		Use:   "compare REPORT...",
		Short: "Compare the reports of several runs, or one report with earlier nights",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := reports.LoadAll(cmd.Context(), args)
			if err != nil {
				return orInterrupted(cmd.Context(), exitError{exitUsage, err})
			}
			switch {
			case len(before) > 0 && (same || len(against) > 0 || page != ""):
				return usage("--before compares the plays of two sides check by check, without --same, --against or --html")
			case len(before) > 0:
				was, err := reports.LoadAll(cmd.Context(), before)
				if err != nil {
					return orInterrupted(cmd.Context(), exitError{exitUsage, fmt.Errorf("--before: %w", err)})
				}
				return printChanges(cmd, reports.Changed(reports.Without(was, loaded), loaded), asJSON)
			case same && len(against) > 0:
				return usage("--same compares reports with each other, --against compares one with earlier nights: use only one of them")
			case same && len(loaded) < 2:
				return usage("--same compares reports with each other, and only one is given")
			case len(against) > 0:
				if len(loaded) != 1 {
					return usage("--against compares one report with earlier ones, and %d are given", len(loaded))
				}
				earlier, err := reports.LoadAll(cmd.Context(), against)
				if err != nil {
					return orInterrupted(cmd.Context(), exitError{exitUsage, fmt.Errorf("--against: %w", err)})
				}
				drift := reports.FindDrift(loaded[0], earlier, atLeast)
				if err := writePage(cmd, page, func() error { return drift.WritePage(page, loaded[0], earlier) }); err != nil {
					return err
				}
				return printDrift(cmd, drift, asJSON)
			}
			matrix := reports.Compare(loaded)
			if err := writePage(cmd, page, func() error { return matrix.WritePage(page, loaded) }); err != nil {
				return err
			}
			return printMatrix(cmd, matrix, asJSON, same)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&same, "same", false, "exit with code 1 unless each scenario has the same outcome in every report")
	cmd.Flags().StringArrayVar(&before, "before", nil, "`folder` of runs before a change, or one of their reports; repeatable: compare each check of REPORT... with all their plays")
	cmd.Flags().StringArrayVar(&against, "against", nil, "`folder` of earlier runs, or one of their reports; repeatable")
	cmd.Flags().StringVar(&page, "html", "", "also write a page into this `file`: the reports side by side, or, with --against, the last nights as a row of marks for each scenario")
	cmd.Flags().IntVar(&atLeast, "at-least", 20, "number of earlier figures required to evaluate one")
	return cmd
}

// writePage writes the page, if one is wanted, and prints where it is.
func writePage(cmd *cobra.Command, page string, write func() error) error {
	if page == "" {
		return nil
	}
	if err := write(); err != nil {
		return exitError{exitUsage, fmt.Errorf("--html: %w", err)}
	}
	printf(cmd.ErrOrStderr(), "%s\n", page)
	return nil
}

func printMatrix(cmd *cobra.Command, m reports.Matrix, asJSON, same bool) error {
	if err := show(cmd, asJSON, m, m.WriteText); err != nil {
		return err
	}
	if !same {
		return nil
	}
	if differing := m.Differing(); len(differing) > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %s do not have the same outcome in every report: %s", len(differing), history.Count(len(m.Scenarios), "scenario"), strings.Join(differing, ", "))}
	}
	return nil
}

// printChanges prints the changes. The error has the exit code: what is worse, or could not be compared.
func printChanges(cmd *cobra.Command, c reports.Changes, asJSON bool) error {
	if err := show(cmd, asJSON, c, c.WriteText); err != nil {
		return err
	}
	return worsened(c)
}

// worsened is the error for changes that are proven worse, or that are not known not to be.
func worsened(c reports.Changes) error {
	worse, open := c.Count(reports.Worse), c.Open()
	switch {
	case worse > 0:
		return exitError{exitFailed, fmt.Errorf("%s proven worse", history.Count(worse, "check"))}
	case len(c.Checks) == 0:
		return exitError{exitUnknown, errors.New("no check was played on both sides")}
	case open > 0:
		return exitError{exitUnknown, fmt.Errorf("%s could not be compared, or may be worse and it is not proven", history.Count(open, "check"))}
	}
	return nil
}

func printDrift(cmd *cobra.Command, d reports.Drift, asJSON bool) error {
	if err := show(cmd, asJSON, d, d.WriteText); err != nil {
		return err
	}
	switch drifted := d.Count(reports.Drifted); {
	case drifted > 0:
		return exitError{exitFailed, fmt.Errorf("%d of %s have drifted", drifted, history.Count(len(d.Figures), "figure"))}
	case d.Count(reports.TooFew) == len(d.Figures):
		return exitError{exitUnknown, fmt.Errorf("no figure has %s, the number required to evaluate drift", history.Count(d.AtLeast, "earlier night"))}
	}
	return nil
}
