package main

import (
	"fmt"

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
				if err := report.WriteJSON(cmd.OutOrStdout()); err != nil {
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
