package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/upgrade"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// fromTo is the value of --coredns and --kubernetes if they have none: that program is upgraded.
const fromTo = "from-to"

// upgradeOptions are the flags of spotdrill upgrade-check.
type upgradeOptions struct {
	runOptions
	from, to string
	plays    int
	program  kind.Program // what is upgraded
}

func newUpgradeCheckCommand() *cobra.Command {
	var o upgradeOptions
	cmd := &cobra.Command{
		Use:               "upgrade-check [SCENARIO...]",
		Short:             "Play the same drills with two versions of a program, and report what changed",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			check, err := o.check(cmd, args)
			if err != nil {
				return err
			}
			if o.dryRun {
				return planUpgrade(cmd, check, o.json)
			}
			if err := printNext(cmd, check); err != nil {
				return err
			}
			changes, err := upgrade.Run(cmd.Context(), check)
			if len(changes.Checks) > 0 || err == nil {
				err = errors.Join(err, show(cmd, o.json, changes, changes.WriteText))
			}
			switch {
			case err != nil:
				return err
			case cmd.Context().Err() != nil:
				return exitError{exitUnknown, fmt.Errorf("interrupted; what was played is in %s, and the same command goes on", check.Folder())}
			}
			printf(cmd.ErrOrStderr(), "wrote %s, %s, %s and %s to %s, next to the reports of both versions\n", reports.ChangesPageFile, reports.ChangesFile, reports.ChangesTextFile, reports.JUnitFile, check.Folder())
			return worsened(changes)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "the `version` before the upgrade")
	flags.StringVar(&o.to, "to", "", "the `version` after it")
	flags.StringVar(&o.set, "set", string(scenarios.Fast), "the `set` of scenarios and their deadlines: "+strings.Join(history.Words(scenarios.SetsToPlay()), ", ")+"; full for CoreDNS")
	flags.StringSliceVar(&o.handlers, "handler", []string{"builtin"}, "the `handler` in the drills, which is upgraded unless --coredns or --kubernetes is: "+strings.Join(handler.Names(), ", ")+", or the path of a description")
	flags.StringSliceVar(&o.only, "only", nil, "play only scenarios whose name matches a `pattern`, such as 'coredns-*'")
	flags.StringSliceVar(&o.skip, "skip", nil, "leave out scenarios whose name matches a `pattern`")
	choices(cmd, &o.profiles, "profile", "play only scenarios of a `profile`", scenarios.Profiles())
	flags.IntVar(&o.plays, "plays", reports.LeastPlays, "the most plays of a scenario with each version: once, and this many if a check does not come out the same")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only print what would be played")
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.StringVar(&o.out, "out", "reports/out/upgrades", "`folder` for results; each comparison gets its own subfolder, in which the same command goes on")
	systemFlags(flags, &o.system)
	handlerVersionFlags(flags, &o.system)
	for _, part := range []kind.Program{kind.CoreDNS, kind.Kubernetes} {
		flag := flags.Lookup(string(part))
		flag.NoOptDefVal = fromTo
		flag.Usage += fmt.Sprintf("; without one, as in --%s --from A --to B, it is what is upgraded", part)
	}
	completeFlag(cmd, "set", history.Words(scenarios.SetsToPlay())...)
	completeFlag(cmd, "handler", handler.Names()...)
	completeFlag(cmd, "platform", scenarios.Platforms()...)
	underHeadings(cmd,
		flagGroup{"What is upgraded", []string{"handler", "coredns", "kubernetes", "from", "to"}},
		flagGroup{"What is played", []string{"set", "profile", "only", "skip", "plays"}},
		flagGroup{"How, and where the results are", []string{"dry-run", "json", "out"}},
		flagGroup{"The cluster", []string{"karpenter", "nth", "platform", "proxy-mode", "cluster", "source", "binary"}})
	return cmd
}

// check is what the flags and arguments choose to be compared.
func (o *upgradeOptions) check(cmd *cobra.Command, args []string) (upgrade.Options, error) {
	var none upgrade.Options
	switch {
	case o.from == "" || o.to == "":
		return none, usage("--from and --to are required: the versions before and after the upgrade")
	case o.plays < 1:
		return none, usage("--plays is %d: want at least 1", o.plays)
	case len(o.handlers) != 1:
		return none, usage("--handler is given %s: an upgrade is checked with one handler", history.Count(len(o.handlers), "time"))
	}
	if err := o.chooseProgram(); err != nil {
		return none, err
	}
	if i := slices.IndexFunc(args, looksLikeVersion); i >= 0 && (o.program == kind.CoreDNS || o.program == kind.Kubernetes) {
		return none, usage("%s is a version: give it as --%s=%[1]s if it is the same before and after the upgrade, or with --from and --to", args[i], o.program)
	}
	if o.program == kind.CoreDNS && len(args)+len(o.only)+len(o.profiles) == 0 {
		o.profiles = []string{"DNS", "UPGRADE"}
		if !cmd.Flags().Changed("set") {
			o.set = string(scenarios.Full)
		}
	}
	var err error
	if o.loader, err = session.OnPlatform(&o.system, cmd.Flags().Changed("proxy-mode")); err != nil {
		return none, exitError{exitUsage, err}
	}
	from, err := o.at(o.from)
	if err != nil {
		return none, err
	}
	to, err := o.at(o.to)
	if err != nil {
		return none, err
	}
	if from.version == to.version {
		return none, usage("--from %s and --to %s are the same release of %s", o.from, o.to, o.program)
	}
	quiet, err := from.options(args, io.Discard)
	if err != nil {
		return none, exitError{exitUsage, err}
	}
	if len(quiet.Scenarios) == 0 {
		return none, usage("nothing to play: no scenario of set %s matches the arguments and flags; see spotdrill list", o.set)
	}
	sides := map[string]runOptions{from.version: from.runOptions, to.version: to.runOptions}
	check := upgrade.Options{
		Program: string(o.program), From: from.version, To: to.version,
		Set: scenarios.Set(o.set), Scenarios: quiet.Scenarios, Plays: o.plays, Out: o.out,
		Session: func(version string) (session.Options, error) { return sides[version].options(args, cmd.ErrOrStderr()) },
		Log:     func(format string, more ...any) { printf(cmd.ErrOrStderr(), format+"\n", more...) },
	}
	if o.program == kind.CoreDNS {
		check.InCluster = func(version string) kind.Release { return kind.Release{Program: kind.CoreDNS, Version: version} }
	}
	return check, nil
}

// looksLikeVersion reports whether an argument is a version rather than a scenario.
func looksLikeVersion(arg string) bool {
	return semver.IsValid("v" + strings.TrimPrefix(arg, "v"))
}

// chooseProgram finds what is upgraded: CoreDNS, Kubernetes, or else the handler.
func (o *upgradeOptions) chooseProgram() error {
	var upgraded []kind.Program
	for _, part := range []kind.Program{kind.CoreDNS, kind.Kubernetes} {
		if o.system.Versions.Of(part) == fromTo {
			upgraded = append(upgraded, part)
		}
	}
	switch {
	case len(upgraded) > 1:
		return usage("--coredns and --kubernetes are both without a version: one upgrade at a time; give the other one as in --kubernetes=v1.34")
	case len(upgraded) == 1:
		o.program = upgraded[0]
		return nil
	}
	under, err := handler.Load(o.handlers[0])
	if err != nil {
		return exitError{exitUsage, err}
	}
	if o.program = under.Program(); o.program != "" {
		return nil
	}
	return usage("what is upgraded? %s has no releases here: choose --handler karpenter, nth or nth-imds, --coredns or --kubernetes", under.Name)
}

// versioned are the options of one side, and the full version of what is upgraded.
type versioned struct {
	runOptions
	version string
}

// at is the side of a version. CoreDNS is exchanged in the cluster, which has its own version at first.
func (o *upgradeOptions) at(version string) (versioned, error) {
	at := versioned{runOptions: o.runOptions}
	at.system.Versions.Set(o.program, version)
	if err := checkSystem(&at.system); err != nil {
		return at, err
	}
	at.version = at.system.Versions.Of(o.program)
	if o.program == kind.CoreDNS {
		at.system.Versions.CoreDNS = ""
	}
	return at, nil
}

// plannedUpgrade is what upgrade-check --dry-run --json prints.
type plannedUpgrade struct {
	Program string  `json:"program"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Folder  string  `json:"folder"`
	Seconds float64 `json:"seconds"` // estimate of one play of each scenario with both versions, without set-ups
	Plays   int     `json:"plays"`   // of each scenario with a check that does not come out the same
	// Next is what is played next; empty if nothing is left.
	Next      string    `json:"next"`
	Scenarios []planned `json:"scenarios"`
}

// planUpgrade prints what would be played.
func planUpgrade(cmd *cobra.Command, check upgrade.Options, asJSON bool) error {
	opts, err := check.Session(check.From)
	if err != nil {
		return exitError{exitUsage, err}
	}
	run, err := session.New(opts)
	if err != nil {
		return exitError{exitUsage, err}
	}
	next, err := check.Next(cmd.Context())
	if err != nil {
		return exitError{exitUsage, err}
	}
	all := planOf(run)
	p := plannedUpgrade{
		Program: check.Program, From: check.From, To: check.To, Folder: check.Folder(), Seconds: 2 * run.Expected().Time.Seconds(), Plays: check.Plays, Scenarios: all,
	}
	if len(next.Scenarios) > 0 {
		p.Next = next.String()
	}
	return show(cmd, asJSON, p, p.WriteText)
}

// WriteText writes the plan for people.
func (p plannedUpgrade) WriteText(w io.Writer) error {
	if err := writePlanned(w, p.Scenarios); err != nil {
		return err
	}
	played := len(slices.DeleteFunc(slices.Clone(p.Scenarios), func(s planned) bool { return s.Skipped != "" }))
	fmt.Fprintf(w, "%s from %s to %s: %s with both versions, about %.0f s plus the set-ups\n", p.Program, p.From, p.To, history.Count(played, "scenario"), p.Seconds)
	if p.Plays > 1 {
		fmt.Fprintf(w, "a scenario with a check that does not come out the same is played %d times with each\n", p.Plays)
	}
	next := p.Next
	if next == "" {
		next = "nothing: all of it was played"
	}
	_, err := fmt.Fprintf(w, "next: %s\nfolder: %s\n", next, p.Folder)
	return err
}

// printNext prints what is compared, and how long it takes at least.
func printNext(cmd *cobra.Command, check upgrade.Options) error {
	next, err := check.Next(cmd.Context())
	if err != nil {
		return orInterrupted(cmd.Context(), exitError{exitUsage, err})
	}
	least := 2 * upgrade.Part{Scenarios: check.Scenarios, Repeat: 1}.Expected(check.Set)
	printf(cmd.ErrOrStderr(), "%s from %s to %s: %s with both versions, %.0f s or more plus the set-ups, and more plays where a check differs; Ctrl-C keeps what was played, and the same command goes on\n",
		check.Program, check.From, check.To, history.Count(len(check.Scenarios), "scenario"), least.Seconds())
	if len(next.Scenarios) == 0 {
		printf(cmd.ErrOrStderr(), "all of it was played: %s\n", check.Folder())
	}
	return nil
}
