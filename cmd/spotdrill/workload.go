package main

import "github.com/spf13/cobra"

// newWorkloadCommand is what the pods run that drills evict: it waits to be
// told to end, and ends.
func newWorkloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "workload",
		Short:  "Wait for SIGTERM, as the pods that drills evict do",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
