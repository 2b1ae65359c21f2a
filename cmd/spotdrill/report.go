package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/reports"
)

func newJudgeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a recorded run again, without a cluster",
		Long: `Judge evaluates every check of a recorded drill again. DIR is the folder of a
run, of one of its scenarios (the last attempt counts) or of one attempt. The page
report.html in that folder is replaced.

Exit code 0: everything passed; 1: something failed; 2: nothing failed, but
something could not be judged.`,
		Example: "  spotdrill judge reports/out/latest",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := reports.Judge(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
				return judged(report.Summary)
			}
			console := reports.NewConsole(cmd.OutOrStdout(), len(report.Results))
			for _, e := range report.Results {
				console.Verdicts(e)
			}
			console.Windows(report.Results)
			fmt.Fprintln(cmd.OutOrStdout(), report.Summary)
			// A read-only folder can be judged, too.
			if page, err := report.WritePage(); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "report.html was not written:", err)
			} else {
				fmt.Fprintln(cmd.ErrOrStderr(), page)
			}
			return judged(report.Summary)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON, and write no page")
	return cmd
}

func newReportCommand() *cobra.Command {
	return group("report", "Work with reports of runs", newReportHTMLCommand(), newReportVerifyCommand(), newReportMergeCommand())
}

func newReportHTMLCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "html DIR",
		Short: "Write the page of a run from its report.yaml",
		Long: `Html writes report.html into DIR, the folder of a run. Timelines and the records
behind a verdict come from the histories in the same folder, which are judged again.
Without them, as in reports/published, the page has what report.yaml has, and names
what is missing.`,
		Example: "  spotdrill report html reports/published/builtin",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := reports.Read(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			page, err := r.WritePage()
			if err != nil {
				return err
			}
			if missing := r.Missing(); missing != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), missing)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), page)
			return nil
		},
	}
}

func newReportVerifyCommand() *cobra.Command {
	var withoutHistories bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check that a YAML report is well formed, consistent and reproducible",
		Long: `Verify reads a run's report.yaml and rejects it if

  - a field is unknown or missing,
  - counts and outcomes do not follow from the verdicts,
  - the environment lacks what is needed to repeat the run, or
  - judging the histories in the same folder again gives other verdicts.

Exit code 0: nothing is wrong; 1: something is wrong, one line for each problem.`,
		Example: "  spotdrill report verify reports/out/latest/report.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := reports.Verify(args[0], withoutHistories)
			if errors.Is(err, fs.ErrNotExist) {
				return exitError{exitUsage, err}
			}
			if err != nil {
				return exitError{exitFailed, fmt.Errorf("%s is rejected:\n%w", args[0], err)}
			}
			fmt.Fprintln(cmd.ErrOrStderr(), args[0]+": verified")
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
		Long: `Merge reads the folders of the runs that played the shards of a run (run --shard),
each with its histories, judges these again, and writes one report, as if one
machine had played all of it. The shards must be of one set, one handler and one
environment, and none may be missing.

Exit code: as that of run.`,
		Example: "  spotdrill report merge shard-1/latest shard-2/latest shard-3/latest shard-4/latest",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := reports.Merge(out, args)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, reports.ErrNotOneRun) || errors.Is(err, reports.ErrOtherEnvironment) {
				return exitError{exitUsage, err}
			}
			if err != nil {
				return err
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
