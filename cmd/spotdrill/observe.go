package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/observe"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// imageVariable names the image of the probers, if --image does not.
const imageVariable = "SPOTDRILL_IMAGE"

// observeOptions are the flags that observing a cluster and drilling it have in common.
type observeOptions struct {
	observe.Options
	cluster      clusterAccess
	service, out string
	transports   []string
}

func (o *observeOptions) flags(flags *pflag.FlagSet) {
	o.cluster.flags(flags)
	flags.StringVar(&o.Namespace, "namespace", observe.DefaultNamespace, "`namespace` of the probers; it is created and removed if it is not there")
	flags.StringVar(&o.Image, "image", os.Getenv(imageVariable), "`reference` of an image with spotdrill that the nodes can pull; the default is "+imageVariable+", then this program itself for nodes that are containers here, as kind's, then the image of this release")
	flags.StringVar(&o.Nodes, "nodes", "", "label `selector` of the probers' nodes; the default is all of them")
	flags.IntVar(&o.Probers, "probers", 0, "`number` of probers, spread over zones and nodes; the default is one on each node, until the node's last pod ends")
	flags.IntVar(&o.Rate, "rate", observe.DefaultRate, "queries per second of each prober to the DNS service, over each transport")
	flags.StringSliceVar(&o.transports, "transport", []string{string(scenarios.UDP)}, "`transport` of these queries: udp, tcp, or udp,tcp for both")
	flags.StringArrayVar(&o.Names, "name", nil, "domain `name` to query, also one outside the cluster; repeatable, names are queried in turn; the default is that of the API server's Service")
	flags.StringVar(&o.Application, "application", "", "`address:port/path` of an application that the probers also request over HTTP, such as 10.96.12.7:80/healthz; --max-window and --max-lost then apply to it, too")
	flags.StringVar(&o.service, "service", "kube-system/kube-dns", "`namespace/name` of CoreDNS's Service, whose endpoints are watched")
	flags.Float64Var(&o.MaxShare, "max-share", observe.DefaultShare, "how much of CoreDNS's own rate the probers may add, such as 0.5, if that is more than 200 queries/s for each of its pods")
	flags.IntVar(&o.MaxQueries, "max-queries", observe.DefaultQueries, "how many queries may be on record: judging them takes some 300 bytes each")
	flags.BoolVar(&o.Conntrack, "conntrack", false, "also record to which CoreDNS pod each query went, with a privileged pod on each node: in its network, with NET_ADMIN")
	optional(flags, &o.Gates.MaxWindow, "max-window", "fail if a window of lost queries is longer than this `duration`", time.ParseDuration)
	optional(flags, &o.Gates.MaxLost, "max-lost", "fail if more than this `number` of queries are lost", strconv.Atoi)
	flags.DurationVar(&o.Settle, "settle", 0, "how long the record goes on after all that began has ended: rollouts, evictions, pods and nodes that are not Ready; the default is that of the scenario, 5s or 10s")
	flags.DurationVar(&o.SettleLimit, "settle-limit", observe.DefaultSettleLimit, fmt.Sprintf("how long that is waited for, up to %v; what is not over then makes the result unknown", observe.MaxSettleLimit))
	flags.StringVar(&o.out, "out", "reports/out", "`folder` for results; each run gets its own subfolder")
	flags.Float64Var(&o.Gates.SLO, "slo", 0, "fail if less than this share of the queries is answered, in percent, such as 99.99")
}

// complete takes over what is not a plain value, and checks all.
func (o *observeOptions) complete(cmd *cobra.Command) error {
	namespace, name, ok := strings.Cut(o.service, "/")
	if !ok || namespace == "" || name == "" {
		return usage("--service is %q: want namespace/name, such as kube-system/kube-dns", o.service)
	}
	var list []scenarios.Transport
	for _, transport := range o.transports {
		list = append(list, scenarios.Transport(transport))
	}
	var err error
	if o.Transport, err = scenarios.TransportOf(list...); err != nil {
		return usage("--transport: %v", err)
	}
	o.DNS = types.NamespacedName{Namespace: namespace, Name: name}
	o.Context = o.cluster.context
	o.Console, o.Progress = cmd.ErrOrStderr(), reports.Rewriting(cmd.ErrOrStderr())
	return nil
}

// connect is the client of the cluster that the flags name.
func (o *observeOptions) connect(ctx context.Context) (*observe.Cluster, error) {
	config, err := o.cluster.config()
	if err != nil {
		return nil, err
	}
	c, err := observe.Connect(ctx, config)
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	return c, nil
}

func newObserveCommand() *cobra.Command {
	var o observeOptions
	var rights printedRights
	var cleanup bool
	cmd := &cobra.Command{
		Use:   "observe --for DURATION | observe -- COMMAND...",
		Short: "Measure DNS in your own cluster while you upgrade it, and change nothing there",
		Args:  cobra.ArbitraryArgs, // the command
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd); err != nil {
				return err
			}
			switch {
			case rights.wanted:
				return rights.print(cmd.OutOrStdout(), o, nil)
			case cleanup:
				return cleanUp(cmd, o)
			case len(args) == 0 && o.For == 0:
				return usage("give --for, or a command after --: both describe what is observed")
			}
			if len(args) > 0 {
				o.Progress = nil // the command's own output would be in the middle of it
			}
			var err error
			if o.Scenario, err = verdict.Scenarios().Observation(); err != nil {
				return err
			}
			return observing(cmd.Context(), o, runOrWait(args, o.For, cmd.ErrOrStderr()), history.Handler{Name: "none"})
		},
	}
	flags := cmd.Flags()
	o.flags(flags)
	flags.DurationVar(&o.For, "for", 0, fmt.Sprintf("how long to observe, or how long the command may take, up to %v; by default a command may take as long as --max-queries allows", observe.MaxFor))
	rights.flags(flags, "only print the namespace and the rights that are needed, as manifests")
	flags.BoolVar(&cleanup, "cleanup", false, "only remove what earlier observations have left in the namespace")
	cmd.AddCommand(newKeepCommand())
	return cmd
}

func newKeepCommand() *cobra.Command {
	var server guarded
	cmd := &cobra.Command{
		Use:    "keep",
		Short:  "End when the client of an observation is gone, as the keeper's pod does",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, token, err := server.listen(cmd.Context())
			if err != nil {
				return err
			}
			return observe.Keep(cmd.Context(), listener, token, observe.Patience)
		},
	}
	server.flags(cmd.Flags())
	return cmd
}

// runOrWait runs a command, or lets time pass.
func runOrWait(command []string, duration time.Duration, out io.Writer) observe.Action {
	if len(command) == 0 {
		return observe.Action{Do: func(ctx context.Context, _ *history.Recorder) error {
			select {
			case <-time.After(duration):
			case <-ctx.Done():
			}
			return nil
		}}
	}
	return observe.Action{Words: shownCommand(command), Do: func(ctx context.Context, _ *history.Recorder) error {
		run := exec.CommandContext(ctx, command[0], command[1:]...)
		run.Stdout, run.Stderr = out, out
		run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
		run.WaitDelay = 30 * time.Second
		err := run.Run()
		if errors.Is(context.Cause(ctx), observe.ErrTooLong) {
			return fmt.Errorf("%s: %w: raise --for, or --max-queries, or lower --rate or --probers", command[0], observe.ErrTooLong)
		}
		return wrap.Errorf(err, "%s", command[0])
	}}
}

func cleanUp(cmd *cobra.Command, o observeOptions) error {
	c, err := o.connect(cmd.Context())
	if err != nil {
		return err
	}
	removed, left, err := c.Cleanup(cmd.Context(), o.Namespace)
	for _, what := range removed {
		printf(cmd.OutOrStdout(), "removed %s\n", what)
	}
	for _, what := range left {
		printf(cmd.OutOrStdout(), "left alone: %s\n", what)
	}
	if err == nil && len(removed)+len(left) == 0 {
		printf(cmd.OutOrStdout(), "nothing is left in namespace %s\n", o.Namespace)
	}
	return err
}

// observing observes the cluster while something is done, judges the record and writes the
// reports.
func observing(ctx context.Context, o observeOptions, action observe.Action, handler history.Handler) (err error) {
	if err := o.Check(); err != nil {
		return exitError{exitUsage, err}
	}
	o.Scenarios, o.Unsettled = verdict.Scenarios(), verdict.Unsettled
	c, err := o.connect(ctx)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) {
		if o.Progress != nil {
			o.Progress("")
		}
		printf(o.Console, format+"\n", args...)
	}
	started := time.Now()
	image, err := chooseImage(ctx, c, o)
	if err != nil {
		return orInterrupted(ctx, err)
	}
	say("the probers run %s", image.words)
	o.Image = image.reference
	say("starting probers in namespace %s", o.Namespace)
	obs, err := c.Prepare(ctx, o.Options)
	defer func() {
		say("removing everything from namespace %s", o.Namespace)
		err = errors.Join(err, obs.Remove(ctx), image.remove(ctx))
	}()
	if err != nil {
		return orInterrupted(ctx, err)
	}
	if o.Conntrack {
		say("a privileged pod on each node records its connection tracking, as --conntrack asked")
	}
	say("%s, %d queries/s each: %s", history.Count(obs.Probers, "prober"), o.Rate*len(o.Transport.Each()), obs.Load)
	if why := obs.Load.TooMuch(o.MaxShare, o.Rate); why != "" {
		return usage("too much load: %s", why)
	}
	folder, err := reports.NewFolder(o.out, started)
	if err != nil {
		return err
	}
	dir, err := folder.Attempt(obs.Scenario, 1)
	if err != nil {
		return err
	}
	setup := time.Since(started)
	say("observing; the record is in %s", dir)
	meta := history.Meta{Set: string(scenarios.Full), Attempt: 1, Handler: handler}
	done := obs.Record(ctx, dir, meta, action)
	report, err := reports.Observed(folder, dir, setup)
	if err != nil {
		return errors.Join(done, err)
	}
	console := reports.NewConsole(o.Console, 1)
	for _, e := range report.Results {
		console.Verdicts(e)
	}
	console.Summary(report)
	var exit *exec.ExitError
	switch judged := judged(report.Summary); {
	case codeOf(judged) == exitFailed:
		return judged
	case ctx.Err() != nil:
		return orInterrupted(ctx, done)
	case errors.Is(done, observe.ErrBrokenBefore):
		return exitError{exitUnknown, done}
	case errors.As(done, &exit):
		return exitError{exitFailed, fmt.Errorf("DNS was measured, but the command failed: %w", done)}
	default:
		return judged
	}
}

// printedRights are the flags that print rights.
type printedRights struct {
	wanted  bool
	subject string
}

func (p *printedRights) flags(flags *pflag.FlagSet, use string) {
	flags.BoolVar(&p.wanted, "print-rbac", false, use)
	flags.StringVar(&p.subject, "subject", "", "with --print-rbac: who gets the rights, `user:NAME`, group:NAME or serviceaccount:NAMESPACE/NAME")
}

func (p *printedRights) print(out io.Writer, o observeOptions, permissions []scenarios.Permission) error {
	if p.subject == "" {
		return usage("--print-rbac needs --subject: who gets the rights, user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME; kubectl auth whoami shows who you are")
	}
	subject, err := observe.ParseSubject(p.subject)
	if err != nil {
		return usage("--subject: %w", err)
	}
	rights := observe.Rights{Subject: subject, Namespace: o.Namespace, Conntrack: o.Conntrack, DNS: o.DNS, Application: o.Application != "", Permissions: permissions}
	if err := rights.Write(out); err != nil {
		return exitError{exitUsage, err}
	}
	return nil
}
