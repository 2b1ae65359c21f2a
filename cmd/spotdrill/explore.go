package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/explore"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func newExploreCommand() *cobra.Command {
	var opts explore.Options
	var under, out, resume string
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "explore SCENARIO",
		Short:             "Disturb each call that a handler makes in a drill, and find what it does wrong then",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Budget <= 0 {
				return usage("--budget is %s: want more than 0s", opts.Budget)
			}
			if err := checkLanes(opts.Session.Lanes); err != nil {
				return err
			}
			var err error
			if opts.Loader, err = checkedSystem(cmd, &opts.Session.System); err != nil {
				return err
			}
			chosen, err := opts.Loader.Select(scenarios.Full, args)
			if err != nil {
				return exitError{exitUsage, err}
			}
			opts.Scenario = chosen[0]
			if resume != "" {
				earlier, err := explore.Load(resume)
				if err != nil {
					return exitError{exitUsage, err}
				}
				opts.Earlier = &earlier
			}
			if opts.Session.Handler, err = handlerAt(under, opts.Session.System.Versions); err != nil {
				return exitError{exitUsage, err}
			}
			opts.Session.Console = cmd.ErrOrStderr()
			opts.Session.Out = filepath.Join(out, opts.Session.Handler.Name)
			opts.Log = func(format string, args ...any) { printf(cmd.ErrOrStderr(), format+"\n", args...) }
			result, err := explore.Run(cmd.Context(), opts)
			if len(result.Points) > 0 {
				err = errors.Join(err, show(cmd, asJSON, result, result.WriteText))
			}
			if result.Folder != "" {
				printf(cmd.ErrOrStderr(), "%s\n", filepath.Join(result.Folder, explore.PageFile))
			}
			switch {
			case err != nil:
				return orInterrupted(cmd.Context(), err)
			case cmd.Context().Err() != nil:
				return exitError{exitUnknown, fmt.Errorf("interrupted; --resume %s goes on", result.Folder)}
			case len(result.Findings()) > 0:
				return exitError{exitFailed, errors.New("the handler fails when it is disturbed")}
			case len(result.Plays) == 0 || result.Count(verdict.Unknown) > 0:
				return exitError{exitUnknown, errors.New("not every variation could be judged")}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&opts.Budget, "budget", 30*time.Minute, "how long variations are begun, without the set-up")
	flags.IntVar(&opts.Session.Lanes, "lanes", 8, "how many variations are played at the same time")
	flags.Uint64Var(&opts.Seed, "seed", 1, "what the order and the pairs are drawn from")
	flags.StringSliceVar(&opts.Only, "only", nil, "disturb only what has this `part` in its name, such as 'patch nodes' or lost-answer; can be given several times")
	flags.StringVar(&resume, "resume", "", "go on with what was explored in this `folder` of a run")
	flags.BoolVar(&asJSON, "json", false, "print the result as JSON")
	flags.StringVar(&out, "out", "reports/out/explored", "`folder` for results; each handler gets its own subfolder")
	systemFlags(flags, &opts.Session.System)
	handlerFlags(cmd, &under, &opts.Session.System)
	return cmd
}
