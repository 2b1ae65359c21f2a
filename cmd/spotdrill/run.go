package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// runOptions are the flags of spotdrill run.
type runOptions struct {
	selection
	set, image, out    string
	policies           []string
	handlers           []string // the handler under test, and a second one
	repeat, lanes      int
	keep, dryRun, json bool
	resume, shard      string
	resumed            *reports.Report // the report in the folder resume
	system             system.Options
	loader             scenarios.Loader
}

// like sets what a run was played with, unless that was changed by a flag.
func (o *runOptions) like(was *reports.Report, changed func(flag string) bool) {
	if !changed("set") {
		o.set = string(was.Set)
	}
	if !changed("handler") {
		o.handlers = []string{cmp.Or(was.Handler.Description, was.Handler.Name)}
		if was.Other != nil {
			o.handlers = append(o.handlers, cmp.Or(was.Other.Description, was.Other.Name))
		}
		o.image = cmp.Or(o.image, was.Handler.Image)
		if len(o.policies) == 0 && was.Handler.Policy != "" {
			o.policies = strings.Split(was.Handler.Policy, ",")
		}
	}
	if !changed("platform") {
		o.system.Platform.Name = was.Environment[history.PlatformKey]
	}
	if mode := was.Environment["kube-proxy"]; mode != "" && !changed("proxy-mode") {
		o.system.ProxyMode = history.ProxyMode(mode)
	}
	likeVersions(was.Environment[reports.VersionsOf], &o.system.Versions, changed)
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:               "run [SCENARIO...]",
		Short:             "Bring the system up, play drills, judge them, write reports",
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.json && !o.dryRun {
				return usage("--json requires --dry-run; the results of a run are in its report.yaml, see spotdrill report")
			}
			if o.repeat < 1 {
				return usage("--repeat is %d: want at least 1", o.repeat)
			}
			if err := checkLanes(o.lanes); err != nil {
				return err
			}
			if o.resume != "" {
				if o.rerunFailed || o.repeat > 1 || o.shard != "" || len(args) > 0 {
					return usage("--resume plays what is left of a run: it cannot be used with scenarios, --rerun-failed, --repeat or --shard")
				}
				was, left, err := reports.Resume(cmd.Context(), o.resume)
				if err != nil {
					return orInterrupted(cmd.Context(), exitError{exitUsage, fmt.Errorf("--resume: %w", err)})
				}
				if len(left) == 0 {
					printf(cmd.ErrOrStderr(), "nothing is left to play: the run in %s has judged or skipped each of its drills: %s\n", o.resume, was.Summary)
					return judged(was.Summary)
				}
				o.resumed, args = was, namesOf(left, o.resume)
				o.like(was, func(string) bool { return false })
			}
			if o.rerunFailed {
				was, err := lastRun(o.out)
				if err != nil {
					return exitError{exitUsage, err}
				}
				o.like(was, cmd.Flags().Changed)
			}
			var err error
			// Another run's mode is chosen, unless that was another platform's.
			like := (o.resume != "" || o.rerunFailed) && !cmd.Flags().Changed("platform")
			if o.loader, err = session.OnPlatform(&o.system, like || cmd.Flags().Changed("proxy-mode")); err != nil {
				return exitError{exitUsage, err}
			}
			if err := checkSystem(&o.system); err != nil {
				return err
			}
			if line := versionsOf(o.loader.Platform, o.system); line != "" {
				printf(cmd.ErrOrStderr(), "%s\n", line)
			}
			opts, err := o.options(args, cmd.ErrOrStderr())
			if errors.Is(err, errAllPassed) {
				printf(cmd.ErrOrStderr(), "%v\n", err)
				return nil
			}
			if err != nil {
				return exitError{exitUsage, err}
			}
			if len(opts.Scenarios) == 0 {
				return usage("nothing to play: no scenario of set %s matches the arguments and flags; see spotdrill list", o.set)
			}
			run, err := session.New(opts)
			if err != nil {
				return exitError{exitUsage, err}
			}
			if o.dryRun {
				return plan(cmd, run, o.json)
			}
			return play(cmd.Context(), run)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.set, "set", string(scenarios.Fast), "the `set` of scenarios and their deadlines: "+strings.Join(history.Words(scenarios.SetsToPlay()), ", "))
	flags.StringSliceVar(&o.handlers, "handler", []string{"builtin"}, "the `handler` under test: "+strings.Join(handler.Names(), ", ")+", or the path of a description; given twice, two handlers in the drills of two")
	flags.StringVar(&o.image, "handler-image", "", "an `image` that the container engine has, instead of the one in the description")
	flags.StringSliceVar(&o.policies, "iam-policy", nil, "a `file` with an IAM policy of the handler, as aws iam or CloudFormation has it; can be given several times: calls of SQS that they do not allow are refused")
	flags.StringSliceVar(&o.only, "only", nil, "play only scenarios whose name matches a `pattern`, such as 'coredns-*'")
	flags.StringSliceVar(&o.skip, "skip", nil, "leave out scenarios whose name matches a `pattern`")
	choices(cmd, &o.profiles, "profile", "play only scenarios of a `profile`", scenarios.Profiles())
	flags.BoolVar(&o.rerunFailed, "rerun-failed", false, "play only what did not pass in the latest run, with its handler, set, platform, versions and kube-proxy mode")
	flags.StringVar(&o.resume, "resume", "", "go on with the run in a `folder`, which ended before its last drill: play what is left, with its handler, set, platform, versions and kube-proxy mode")
	flags.StringVar(&o.shard, "shard", "", "play only one of several equal `parts`, such as 2/4; spotdrill report merge joins their reports")
	flags.IntVar(&o.repeat, "repeat", 1, "times to play each scenario; the worst outcome counts")
	flags.IntVar(&o.lanes, "lanes", 1, fmt.Sprintf("how many drills can play at the same time, each with a handler, a queue and virtual nodes of its own, at most %d", session.MaxLanes))
	flags.BoolVar(&o.keep, "keep", false, "stop at the first drill that does not pass, and leave the cluster as it is")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only print what would be played")
	flags.BoolVar(&o.json, "json", false, "with --dry-run, print a JSON array")
	flags.StringVar(&o.out, "out", "reports/out", "`folder` for results; each run gets its own subfolder")
	systemFlags(flags, &o.system)
	handlerVersionFlags(flags, &o.system)
	completeFlag(cmd, "set", history.Words(scenarios.SetsToPlay())...)
	completeFlag(cmd, "handler", handler.Names()...)
	completeFlag(cmd, "platform", scenarios.Platforms()...)
	cmd.SetFlagErrorFunc(flagOfLive)
	underHeadings(cmd,
		flagGroup{"What is played", []string{"set", "profile", "only", "skip", "rerun-failed", "resume", "shard", "repeat", "lanes"}},
		flagGroup{"With which handler", []string{"handler", "handler-image", "karpenter", "nth", "iam-policy"}},
		flagGroup{"How, and where the results are", []string{"dry-run", "json", "keep", "out"}},
		flagGroup{"The cluster", []string{"cluster", "platform", "kubernetes", "coredns", "proxy-mode", "source", "binary"}})
	return cmd
}

// flagOfLive is the error for a flag that only spotdrill live has; it shows that command.
func flagOfLive(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && newLiveCommand().Flags().Lookup(unknown.GetSpecifiedName()) != nil {
		return usage("%w; spotdrill live drills your own cluster: spotdrill live [DRILL...] --context CONTEXT; see spotdrill live --help", err)
	}
	return flagError(cmd, err)
}

// options are those of a session.
func (o runOptions) options(args []string, console io.Writer) (session.Options, error) {
	chosen, err := o.choose(o.loader, scenarios.Set(o.set), args, o.out)
	if err != nil {
		return session.Options{}, err
	}
	if o.resumed != nil {
		chosen = slices.DeleteFunc(chosen, func(s scenarios.Scenario) bool { return o.resumed.Has(s.Name) })
	}
	shard, err := scenarios.ParseShard(o.shard)
	if err != nil {
		return session.Options{}, err
	}
	under, other, err := handler.LoadPair(o.handlers)
	if err == nil {
		under, other, err = handler.AtVersions(o.system.Versions, under, other)
	}
	if err == nil {
		under, err = under.WithPolicies(o.policies...)
	}
	if err != nil {
		return session.Options{}, err
	}
	if note := under.PolicyNote(); note != "" {
		printf(console, "%s\n", note)
	}
	return session.Options{
		Handler: under, Other: other, HandlerImage: o.image, Set: scenarios.Set(o.set), Scenarios: chosen, Shard: shard, Repeat: o.repeat, Lanes: o.lanes,
		System: o.system, Out: o.out, Keep: o.keep, Resumed: o.resumed, Console: console,
	}, nil
}

// planned is a scenario in run --dry-run.
type planned struct {
	Scenario string  `json:"scenario"`
	Profile  string  `json:"profile"`
	Title    string  `json:"title"`
	Seconds  float64 `json:"seconds"` // estimate; 0 if it is skipped
	Skipped  string  `json:"skipped,omitempty"`
	InLane   bool    `json:"inLane,omitempty"` // at the same time as drills in other lanes
}

// plan prints what a session would do.
func plan(cmd *cobra.Command, s *session.Session, asJSON bool) error {
	all := planOf(s)
	return show(cmd, asJSON, all, func(w io.Writer) error { return planText(w, s, all) })
}

// planOf are the scenarios of a session.
func planOf(s *session.Session) (all []planned) {
	lanes := s.LaneNames()
	for _, scenario := range s.Scenarios {
		p := planned{
			Scenario: scenario.Name, Profile: scenario.Profile, Title: scenario.Title, Skipped: s.NotApplicable(scenario),
			InLane: slices.Contains(lanes, scenario.Name),
		}
		if p.Skipped == "" {
			p.Seconds = session.Expected(scenario, s.Set).Seconds()
		}
		all = append(all, p)
	}
	return all
}

func planText(w io.Writer, s *session.Session, all []planned) error {
	if err := writePlanned(w, all); err != nil {
		return err
	}
	meta := s.Handler.Meta()
	_, err := fmt.Fprintf(w, "handler %s %s, set %s, cluster %s: %s plus the set-up\n", meta.Name, meta.Version, s.Set, s.System.Cluster, s.Expected())
	inLanes := 0
	for _, p := range all {
		if p.InLane {
			inLanes++
		}
	}
	if inLanes > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%d of them play at the same time, in %d lanes\n", inLanes, min(inLanes, s.Lanes))
	}
	return err
}

// writePlanned writes a table of the scenarios.
func writePlanned(w io.Writer, all []planned) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tABOUT\tTITLE")
	for _, p := range all {
		if p.Skipped != "" {
			fmt.Fprintf(table, "%s\t-\tskipped: %s\n", p.Scenario, p.Skipped)
			continue
		}
		fmt.Fprintf(table, "%s\t%.0f s\t%s\n", p.Scenario, p.Seconds, p.Title)
	}
	return table.Flush()
}

// play runs a session.
func play(ctx context.Context, s *session.Session) error {
	broken := s.SetUp(ctx)
	if broken == nil {
		broken = s.DrillAll(ctx)
	}
	broken = errors.Join(broken, s.Finish(context.WithoutCancel(ctx)))
	if s.Unrestored() != "" {
		printf(s.Console, "%s", howToGoOn(s))
	}
	if ctx.Err() != nil && s.Report() != nil {
		return interrupted(s.Report().Summary, broken)
	}
	if broken != nil {
		return broken
	}
	return judged(s.Report().Summary)
}

// interrupted is the error of a run that the user ended. What it found until then decides the exit code,
// unless the cluster could not be restored.
func interrupted(c reports.Counts, broken error) error {
	err := errors.New("interrupted")
	switch {
	case broken != nil && !errors.Is(broken, context.Canceled):
		return fmt.Errorf("%w; %w", err, broken)
	case c.Failed > 0:
		return exitError{exitFailed, err}
	}
	return exitError{exitUnknown, err}
}

// howToGoOn lists what can be done with a cluster that --keep left as it was.
func howToGoOn(s *session.Session) string {
	kubeconfig, err := system.Kubeconfig(s.System.Cluster)
	if err != nil {
		kubeconfig = err.Error()
	}
	cluster, flags := "", ""
	if s.System.Cluster != system.DefaultCluster {
		cluster = " --cluster " + s.System.Cluster
	}
	if s.System.ProxyMode != history.IPTables {
		flags = " --proxy-mode " + string(s.System.ProxyMode)
	}
	if versions := s.System.Versions.Cluster().Flags(); versions != "" {
		flags += " " + versions
	}
	if name := s.System.Platform.Name; name != "" {
		flags += " --platform " + name
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nthe cluster is left as it was after the drill; to continue:")
	for _, line := range [][2]string{
		{"export KUBECONFIG=" + kubeconfig, "then look: kubectl get pods -A -o wide"},
		{"spotdrill judge " + s.Unrestored(), "show the verdicts again"},
		{s.Again() + " --keep" + cluster, "play it again; the cluster is restored first"},
		{"spotdrill up" + cluster + flags, "restore the cluster"},
		{"spotdrill down" + cluster, "remove the cluster"},
	} {
		fmt.Fprintf(table, "  %s\t# %s\n", line[0], line[1])
	}
	_ = table.Flush() // into memory
	return b.String()
}
