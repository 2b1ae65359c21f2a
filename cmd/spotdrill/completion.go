package main

import (
	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

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

// completeFlag completes the values of a flag. It panics if the flag does not exist.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault)); err != nil {
		panic(err)
	}
}
