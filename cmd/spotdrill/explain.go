package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// explanation documents a clause.
type explanation struct {
	Clause   string      `json:"clause"`
	Title    string      `json:"title"`
	Profile  string      `json:"profile"`
	Why      string      `json:"why"`
	Source   string      `json:"source"`
	Feature  string      `json:"feature,omitempty"` // what a handler must claim
	Setting  string      `json:"setting,omitempty"` // for what its description must have settings
	Steps    []string    `json:"steps"`
	Checks   []explained `json:"checks"`
	PlayedBy string      `json:"playedBy"` // the command
}

// explained is one check of a clause, with how to fix a failure.
type explained struct {
	ID    string `json:"id"`
	Check string `json:"check"`
	Want  string `json:"want"`
	Fix   string `json:"fix"`
}

func newExplainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain CLAUSE",
		Short: "Show what a clause requires, why, and how to fix a failure",
		Long: `Explain shows what a clause (the name of a scenario in reports) requires of a
handler, why, and by which source; what happens in its drill; what each check
requires; and how to fix a failure. CLAUSE is the name of a scenario (see
spotdrill list) or a path that ends in .yaml.`,
		Example:           "  spotdrill explain spot-notice-drains-node",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := verdict.Scenarios().Select(scenarios.Fast, args)
			if err != nil {
				return exitError{exitUsage, err}
			}
			e := explain(chosen[0], args[0])
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), e)
			}
			return e.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func explain(s scenarios.Scenario, called string) explanation {
	e := explanation{
		Clause: s.Name, Title: s.Title, Profile: s.Profile, Why: strings.Join(strings.Fields(s.Description), " "),
		Source: s.Source, Feature: s.Feature, Setting: s.Setting, PlayedBy: "spotdrill run " + called,
	}
	for _, step := range s.Steps {
		e.Steps = append(e.Steps, step.String())
	}
	// The verdicts on an empty history list what every check requires.
	for _, v := range verdict.Judge(s, history.History{}).Verdicts {
		e.Checks = append(e.Checks, explained{string(v.ID), v.Check, v.Want, v.Kind().Fix})
	}
	return e
}

func (e explanation) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n%s\n\nwhy:    %s\nsource: %s\n", e.Clause, e.Profile, e.Title, e.Why, e.Source)
	if e.Feature != "" {
		fmt.Fprintf(&b, "needs:  a handler that claims the feature %s\n", e.Feature)
	}
	if e.Setting != "" {
		fmt.Fprintf(&b, "needs:  a handler whose description has settings for %s\n", e.Setting)
	}
	fmt.Fprintf(&b, "\nwhat happens:\n")
	for i, step := range e.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, step)
	}
	fmt.Fprintf(&b, "\nwhat each check requires, and how to fix a failure:\n")
	for _, c := range e.Checks {
		fmt.Fprintf(&b, "  %s: %s\n      %s\n", c.Check, c.Want, c.Fix)
	}
	fmt.Fprintf(&b, "\nplay it: %s\n", e.PlayedBy)
	_, err := io.WriteString(w, b.String())
	return err
}
