// Command spotdrill runs fire drills for spot nodes and cluster DNS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitFailed  = 1  // something failed
	exitUnknown = 2  // nothing failed, but something could not be judged
	exitUsage   = 64 // EX_USAGE of sysexits(3)
	exitHarness = 70 // EX_SOFTWARE: the harness itself broke
)

// exitError carries the exit code that an error calls for.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "spotdrill",
		Short:         "Fire drills for spot nodes and cluster DNS",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{exitUsage, err} })
	root.AddCommand(
		newUpCommand(), newDownCommand(), newListCommand(), newJudgeCommand(), newReportCommand(), newCompareCommand(), newProbeCommand(),
		newHandlerCommand(), newProxyCommand(), newWorkloadCommand(),
	)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "spotdrill:", err)
		code := exitHarness
		var coded exitError
		if errors.As(err, &coded) {
			code = coded.code
		}
		stop()
		os.Exit(code) //nolint:gocritic // stop has run
	}
}
