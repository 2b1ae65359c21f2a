package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
)

func newJudgeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a recorded run again, without a cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := reports.Judge(cmd.Context(), args[0])
			if err != nil {
				return orInterrupted(cmd.Context(), exitError{exitUsage, err})
			}
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
				return judged(report.Summary)
			}
			console := reports.NewConsole(cmd.OutOrStdout(), len(report.Results))
			// What did not pass is last, where it does not scroll off.
			results := slices.Clone(report.Results)
			slices.SortStableFunc(results, func(a, b reports.Entry) int { return notPassed(a) - notPassed(b) })
			for _, e := range results {
				console.Verdicts(e)
			}
			console.Windows(report.Results)
			printf(cmd.OutOrStdout(), "%s\n", report.Summary)
			// A read-only folder can be judged, too.
			if page, err := report.WritePage(); err != nil {
				printf(cmd.ErrOrStderr(), "report.html was not written: %v\n", err)
			} else {
				printf(cmd.ErrOrStderr(), "%s\n", page)
			}
			return judged(report.Summary)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON, and write no page")
	return cmd
}

// notPassed is 1 for a drill that failed or is unknown, else 0.
func notPassed(e reports.Entry) int {
	if e.Outcome == verdict.Fail || e.Outcome == verdict.Unknown {
		return 1
	}
	return 0
}

func newReportCommand() *cobra.Command {
	return group("report", "Work with reports of runs", newReportHTMLCommand(), newReportVerifyCommand(), newReportMergeCommand())
}

func newReportHTMLCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "html DIR",
		Short: "Write the page of a run from its report.yaml",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := reports.Read(cmd.Context(), args[0])
			if err != nil {
				return orInterrupted(cmd.Context(), exitError{exitUsage, err})
			}
			page, err := r.WritePage()
			if err != nil {
				return err
			}
			if missing := r.Missing(); missing != "" {
				printf(cmd.ErrOrStderr(), "%s\n", missing)
			}
			printf(cmd.ErrOrStderr(), "%s\n", page)
			return nil
		},
	}
}

func newReportVerifyCommand() *cobra.Command {
	var withoutHistories bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check that a YAML report is well formed, consistent and reproducible",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			covers, err := reports.Verify(cmd.Context(), args[0], withoutHistories)
			if cmd.Context().Err() != nil {
				return orInterrupted(cmd.Context(), err)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return exitError{exitUsage, err}
			}
			if errors.Is(err, reports.ErrNotComparable) {
				return exitError{exitUnknown, fmt.Errorf("%s is not verified: nothing in it is wrong by itself (%s), and it %w", args[0], covers, err)}
			}
			if err != nil {
				return exitError{exitFailed, fmt.Errorf("%s is rejected:\n%w", args[0], err)}
			}
			printf(cmd.ErrOrStderr(), "%s: verified: %s\n", args[0], covers)
			return nil
		},
	}
	cmd.Flags().BoolVar(&withoutHistories, "without-histories", false, "do not judge again; for reports that were published without their histories")
	return cmd
}

func newReportMergeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge FOLDER...",
		Short: "Join the reports of the shards of a run into one",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := reports.Merge(cmd.Context(), out, args)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, reports.ErrNotOneRun) || errors.Is(err, reports.ErrOtherEnvironment) {
				return exitError{exitUsage, err}
			}
			if err != nil {
				return orInterrupted(cmd.Context(), err)
			}
			if err := r.Folder().Write(r); err != nil {
				return err
			}
			reports.NewConsole(cmd.ErrOrStderr(), len(r.Results)).Summary(r)
			return judged(r.Summary)
		},
	}
	cmd.Flags().StringVar(&out, "out", "reports/out", "`folder` for results; the merged run gets its own subfolder")
	return cmd
}
