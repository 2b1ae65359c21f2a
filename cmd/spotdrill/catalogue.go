package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func newListCommand() *cobra.Command {
	var set string
	var profiles []string
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
			selected = slices.DeleteFunc(selected, func(s scenarios.Scenario) bool { return !(selection{profiles: profiles}).lets(s) })
			all := listed(selected, scenarios.Set(set))
			return show(cmd, asJSON, all, all.WriteText)
		},
	}
	cmd.Flags().StringVar(&set, "set", string(scenarios.Fast), "list the scenarios of this `set`: "+strings.Join(history.Words(scenarios.SetsToPlay()), ", "))
	choices(cmd, &profiles, "profile", "list only scenarios of a `profile`", scenarios.Profiles())
	completeFlag(cmd, "set", history.Words(scenarios.SetsToPlay())...)
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
	// Claims are what the drill needs of the cluster, for itself or together with others.
	Claims scenarios.Claims `json:"claims"`
}

type listings []listing

// WriteText writes a table.
func (all listings) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROFILE\tSCENARIO\tAT LEAST\tNEEDS\tTITLE")
	for _, l := range all {
		fmt.Fprintf(table, "%s\t%s\t%.0fs\t%s\t%s\n", l.Profile, l.Name, l.AtLeast, cmp.Or(l.Feature, l.Setting, "-"), l.Title)
	}
	return table.Flush()
}

func listed(selected []scenarios.Scenario, set scenarios.Set) listings {
	out := make(listings, 0, len(selected))
	for _, s := range selected {
		out = append(out, listing{s.Name, s.Profile, s.Title, s.Sets, s.Feature, s.Setting, s.Source, s.Expected(set).Seconds(), s.Claims()})
	}
	return out
}

// explanation documents a scenario.
type explanation struct {
	Scenario string      `json:"scenario"`
	Title    string      `json:"title"`
	Profile  string      `json:"profile"`
	Why      string      `json:"why"`
	Source   string      `json:"source"`
	Feature  string      `json:"feature,omitempty"`  // what a handler must claim
	Setting  string      `json:"setting,omitempty"`  // for what its description must have settings
	Arranged string      `json:"arranged,omitempty"` // the settings of the drill, as its file has them
	Steps    []string    `json:"steps"`
	Checks   []explained `json:"checks"`
	// Claims are what the drill needs of the cluster; none in a cluster that is not spotdrill's own.
	Claims   scenarios.Claims `json:"claims,omitempty"`
	PlayedBy string           `json:"playedBy"` // a command that plays it
}

// explained is one check of a scenario, with how to fix a failure.
type explained struct {
	ID    string `json:"id"`
	Check string `json:"check"`
	Want  string `json:"want"`
	Fix   string `json:"fix"`
}

func newExplainCommand() *cobra.Command {
	var asJSON bool
	var on system.Options // only its platform
	cmd := &cobra.Command{
		Use:               "explain SCENARIO",
		Short:             "Show what a scenario requires, why, and how to fix a failure",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			loader, err := onPlatform(cmd, &on)
			if err != nil {
				return err
			}
			choose := func() ([]scenarios.Scenario, error) { return loader.Select(scenarios.Fast, args) }
			if scenarios.IsLive(args[0]) {
				choose = func() ([]scenarios.Scenario, error) { return chooseLive(args, nil) }
			}
			chosen, err := choose()
			if err != nil {
				return exitError{exitUsage, err}
			}
			e, err := explain(chosen[0], args[0])
			if err != nil {
				return err
			}
			return show(cmd, asJSON, e, e.WriteText)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	platformFlag(cmd.Flags(), &on.Platform.Name)
	return cmd
}

func explain(s scenarios.Scenario, called string) (explanation, error) {
	command, err := playedBy(s, called)
	if err != nil {
		return explanation{}, err
	}
	e := explanation{
		Scenario: s.Name, Title: s.Title, Profile: s.Profile, Why: strings.Join(strings.Fields(s.Description), " "),
		Source: s.Source, Feature: s.Feature, Setting: s.Setting, Arranged: s.Arranged(), PlayedBy: command,
	}
	for _, step := range s.Steps {
		e.Steps = append(e.Steps, step.String())
	}
	if s.Observe != nil {
		e.Steps = s.Observe.Phases()
	} else {
		e.Claims = s.Claims()
	}
	// The verdicts on an empty history list what every check requires.
	for _, v := range verdict.Judge(s, history.History{}).Verdicts {
		kind, _ := verdict.KindOf(v.ID) // its own, not that of the premise which an empty history lacks
		e.Checks = append(e.Checks, explained{string(v.ID), v.Check, v.Want, kind.FixOf(v.ID)})
	}
	return e, nil
}

// playedBy is a command that plays the scenario and does not skip it.
func playedBy(s scenarios.Scenario, called string) (string, error) {
	if s.Observe != nil {
		return "spotdrill live --context CONTEXT " + called, nil
	}
	handlers, err := session.PlayedWith(s)
	if err != nil {
		return "", err
	}
	command := "spotdrill run"
	if len(handlers) == 0 {
		command += " --handler ./my-handler/handler.yaml"
	}
	for _, name := range handlers {
		if len(handlers) > 1 || name != "builtin" {
			command += " --handler " + name
		}
	}
	if !slices.Contains(s.Sets, scenarios.Fast) {
		command += " --set " + string(s.Sets[0])
	}
	return command + " " + called, nil
}

//go:embed explain.txt
var explainText string

// WriteText writes the explanation for people.
func (e explanation) WriteText(w io.Writer) error {
	text, err := template.New("explain.txt").Funcs(template.FuncMap{"number": func(i int) int { return i + 1 }}).Parse(explainText)
	if err != nil {
		return fmt.Errorf("read the template of explain: %w", err)
	}
	return text.Execute(w, e)
}

// completeScenarios completes names of scenarios, and files.
func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return completed(verdict.Scenarios().Catalogue())
}

// completeLive completes names of drills of the user's own cluster, and files.
func completeLive(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return completed(verdict.Scenarios().Live())
}

func completed(all []scenarios.Scenario, err error) ([]string, cobra.ShellCompDirective) {
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, s := range all {
		names = append(names, cobra.CompletionWithDesc(s.Name, s.Title))
	}
	return names, cobra.ShellCompDirectiveDefault
}
