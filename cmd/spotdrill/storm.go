package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/storm"
)

// maxPods is how many pods a node of a storm can have.
const maxPods = 20

func newStormCommand() *cobra.Command {
	var opts storm.Options
	var under, env, out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Find the largest storm of notices that a handler survives, and its limit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkStorm(&opts, env); err != nil {
				return err
			}
			loader, err := checkedSystem(cmd, &opts.Session.System)
			if err != nil {
				return err
			}
			if opts.Session.Handler, err = handlerAt(under, opts.Session.System.Versions); err != nil {
				return exitError{exitUsage, err}
			}
			opts.Loader, opts.Session.Console = loader, cmd.ErrOrStderr()
			opts.Session.Out = filepath.Join(out, opts.Session.Handler.Name)
			results, err := storm.Run(cmd.Context(), opts)
			err = errors.Join(err, storm.Write(opts.Session.Out, results), show(cmd, asJSON, results, func(w io.Writer) error { return storm.WriteText(w, results) }))
			if err != nil {
				return orInterrupted(cmd.Context(), err)
			}
			printf(cmd.ErrOrStderr(), "wrote %s to %s, next to the reports\n", storm.ResultsFile, opts.Session.Out)
			switch {
			case cmd.Context().Err() != nil:
				return exitError{exitUnknown, errors.New("interrupted")}
			case slices.ContainsFunc(results, func(r storm.Result) bool { return !r.Known() }):
				return exitError{exitUnknown, errors.New("the largest storm is not known")}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&env, "env", "", "search with each value of an environment variable of the handler's containers, such as `WORKERS=1,10,50`")
	flags.IntVar(&opts.Most, "most", storm.UsualNodes, fmt.Sprintf("how many `nodes` the largest storm has, at most %d", storm.MaxNodes))
	flags.IntVar(&opts.Pods, "pods", 5, "how many `pods` there are for each node, on average")
	flags.DurationVar(&opts.Over, "over", time.Second, "the `time` from the first notice to the last")
	flags.BoolVar(&asJSON, "json", false, "print the results as a JSON array")
	flags.StringVar(&out, "out", "reports/out/storms", "`folder` for results; each handler gets its own subfolder")
	systemFlags(flags, &opts.Session.System)
	handlerFlags(cmd, &under, &opts.Session.System)
	return cmd
}

// checkStorm checks the flags, and reads env.
func checkStorm(opts *storm.Options, env string) error {
	name, values, ok := strings.Cut(env, "=")
	switch {
	case env != "" && (!ok || name == "" || values == ""):
		return usage("--env is %q: want NAME=VALUE,VALUE", env)
	case opts.Most < 1 || opts.Most > storm.MaxNodes:
		return usage("--most is %d: want 1 to %d", opts.Most, storm.MaxNodes)
	case opts.Pods < 1 || opts.Pods > maxPods:
		return usage("--pods is %d: want 1 to %d", opts.Pods, maxPods)
	case opts.Over < 0 || opts.Over > storm.MaxOver:
		return usage("--over is %s: want 0s to %s", opts.Over, storm.MaxOver)
	case env != "":
		opts.Env = storm.Env{Name: name, Values: strings.Split(values, ",")}
	}
	return nil
}
