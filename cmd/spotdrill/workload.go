package main

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
)

// newWorkloadCommand runs in the pods that drills evict: it waits for SIGTERM and
// ends as its flags say.
func newWorkloadCommand() *cobra.Command {
	var (
		stopAfter time.Duration
		deaf      bool
		code      int
	)
	cmd := &cobra.Command{
		Use:    "workload",
		Short:  "Wait for SIGTERM, as the pods that drills evict do",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			if deaf {
				stopAfter = math.MaxInt64 // until SIGKILL
			}
			time.Sleep(stopAfter)
			if code != 0 {
				return exitError{code, fmt.Errorf("stopped with exit code %d, as --exit-code demands", code)}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&stopAfter, "stop-after", 0, "time from SIGTERM to the end")
	cmd.Flags().BoolVar(&deaf, "deaf", false, "ignore SIGTERM")
	cmd.Flags().IntVar(&code, "exit-code", 0, "exit code after SIGTERM")
	return cmd
}
