package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/scenarios"
)

func newListCommand() *cobra.Command {
	var set, profile string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios of the catalogue",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selected, err := scenarios.Select(scenarios.Set(set), nil)
			if err != nil {
				return exitError{exitUsage, err}
			}
			if profile != "" && !slices.Contains(scenarios.Profiles(), profile) {
				return exitError{exitUsage, fmt.Errorf("unknown profile %q; allowed: %s", profile, strings.Join(scenarios.Profiles(), ", "))}
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "PROFILE\tSCENARIO\tAT LEAST\tNEEDS\tTITLE")
			for _, s := range selected {
				if profile != "" && s.Profile != profile {
					continue
				}
				needs := s.Feature
				if needs == "" {
					needs = "-"
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Profile, s.Name, s.Expected(scenarios.Set(set)).Round(time.Second), needs, s.Title)
			}
			return table.Flush()
		},
	}
	cmd.Flags().StringVar(&set, "set", string(scenarios.Fast), "list the scenarios of this set: fast or full")
	cmd.Flags().StringVar(&profile, "profile", "", "list only this profile: "+strings.Join(scenarios.Profiles(), ", "))
	return cmd
}
