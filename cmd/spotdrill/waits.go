package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/rundelay"
)

// newWaitsCommand runs together with a drill, on its machine. It ends when its standard input does.
func newWaitsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    rundelay.Command,
		Short:  "Record for how long processes of pods wait for a processor",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return rundelay.Serve(context.WithoutCancel(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
