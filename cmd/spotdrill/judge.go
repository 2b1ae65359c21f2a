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
run, of a scenario in it (its last attempt counts) or of one attempt.

Exit code 0: everything passed; 1: something failed; 2: nothing failed, but
something could not be judged.`,
		Example: "  spotdrill judge reports/out/latest",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			entries, err := reports.Judge(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			console := reports.NewConsole(cmd.OutOrStdout(), len(entries))
			var counts reports.Counts
			for _, e := range entries {
				console.Verdicts(e)
				counts.Add(e.Outcome)
			}
			console.Windows(entries)
			fmt.Fprintln(cmd.OutOrStdout(), counts)
			return judged(counts)
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
