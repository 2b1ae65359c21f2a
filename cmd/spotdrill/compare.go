package main

import (
	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/reports"
)

func newCompareCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare REPORT...",
		Short: "Set the reports of several runs against each other",
		Long: `Compare prints a table of scenarios and reports: each outcome, and the figure
that the scenario is about (the longest DNS window, or how long the drain took).
A report that does not have a scenario shows "-". What differs between the
environments stands under the table: figures are comparable only as far as the
machines are.`,
		Example: "  spotdrill compare reports/published/*/report.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var loaded []*reports.Report
			for _, file := range args {
				r, err := reports.Load(file)
				if err != nil {
					return exitError{exitUsage, err}
				}
				loaded = append(loaded, r)
			}
			matrix := reports.Compare(loaded)
			if asJSON {
				return matrix.WriteJSON(cmd.OutOrStdout())
			}
			return matrix.WriteText(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
