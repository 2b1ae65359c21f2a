package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func newListCommand() *cobra.Command {
	var set, profile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios of the catalogue",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selected, err := verdict.Scenarios().Select(scenarios.Set(set), nil)
			if err != nil {
				return exitError{exitUsage, err}
			}
			if profile != "" {
				if err := knownProfile(profile); err != nil {
					return exitError{exitUsage, err}
				}
				selected = slices.DeleteFunc(selected, func(s scenarios.Scenario) bool { return s.Profile != profile })
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), listed(selected, scenarios.Set(set)))
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "PROFILE\tSCENARIO\tAT LEAST\tNEEDS\tTITLE")
			for _, s := range selected {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Profile, s.Name, s.Expected(scenarios.Set(set)).Round(time.Second), cmp.Or(s.Feature, s.Setting, "-"), s.Title)
			}
			return table.Flush()
		},
	}
	cmd.Flags().StringVar(&set, "set", string(scenarios.Fast), "list the scenarios of this set: "+strings.Join(history.Words(scenarios.Sets()), ", "))
	cmd.Flags().StringVar(&profile, "profile", "", "list only this profile: "+strings.Join(scenarios.Profiles(), ", "))
	completeFlag(cmd, "set", history.Words(scenarios.Sets())...)
	completeFlag(cmd, "profile", scenarios.Profiles()...)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// listing is a scenario in list --json.
type listing struct {
	Name    string          `json:"name"`
	Profile string          `json:"profile"`
	Title   string          `json:"title"`
	Sets    []scenarios.Set `json:"sets"`
	Feature string          `json:"feature,omitempty"` // what a handler must claim
	Setting string          `json:"setting,omitempty"` // for what its description must have settings
	Source  string          `json:"source"`
	AtLeast float64         `json:"atLeastSeconds"` // how long a drill takes
}

func listed(selected []scenarios.Scenario, set scenarios.Set) []listing {
	out := make([]listing, 0, len(selected))
	for _, s := range selected {
		out = append(out, listing{s.Name, s.Profile, s.Title, s.Sets, s.Feature, s.Setting, s.Source, s.Expected(set).Seconds()})
	}
	return out
}
