package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/reports"
)

func newJudgeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a recorded run once more, without a cluster",
		Long: `Judge evaluates every check of a recorded drill again. DIR is the folder of a
run, of a scenario in it (its last attempt counts) or of one attempt. The page
report.html in it is written anew.

Exit code 0: everything passed; 1: something failed; 2: nothing failed, but
something could not be judged.`,
		Example: "  spotdrill judge reports/out/latest",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := reports.Judge(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			console := reports.NewConsole(cmd.OutOrStdout(), len(report.Results))
			for _, e := range report.Results {
				console.Verdicts(e)
			}
			console.Windows(report.Results)
			fmt.Fprintln(cmd.OutOrStdout(), report.Summary)
			// A folder that cannot be written to is judged all the same.
			if page, err := report.WritePage(); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "no page written:", err)
			} else {
				fmt.Fprintln(cmd.ErrOrStderr(), page)
			}
			return judged(report.Summary)
		},
	}
}

// judged is the error, and so the exit code, that the outcomes of drills call for.
func judged(c reports.Counts) error {
	switch {
	case c.Failed > 0:
		return exitError{exitFailed, fmt.Errorf("%d of %d scenarios failed", c.Failed, c.Total)}
	case c.Unknown > 0:
		return exitError{exitUnknown, fmt.Errorf("%d of %d scenarios could not be judged", c.Unknown, c.Total)}
	}
	return nil
}
