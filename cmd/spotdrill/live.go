package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/consent"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/observe"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// noticeDeadline is what EC2 gives after a spot interruption notice.
const noticeDeadline = 2 * time.Minute

// liveOptions are the flags of spotdrill live.
type liveOptions struct {
	observeOptions
	allow                   []scenarios.Permission
	node                    string
	emptyDir, force, dryRun bool
	rights                  printedRights
	aws                     awsAccess
	queueURL, journal       string
}

func newLiveCommand() *cobra.Command {
	var o liveOptions
	cmd := &cobra.Command{
		Use:               "live [DRILL...]",
		Short:             "Drill your own cluster, with your consent for each kind of change",
		Args:              cobra.ArbitraryArgs, // the drills
		ValidArgsFunction: completeLive,
		RunE:              o.run,
	}
	flags := cmd.Flags()
	o.flags(flags)
	choices(cmd, &o.allow, "allow", "a `change` that may be made to the cluster; without it the plan is printed", scenarios.Permissions())
	flags.StringVar(&o.node, "node", "", "the `node` to drain or to send the notice about, or whose CoreDNS pod is evicted")
	flags.BoolVar(&o.emptyDir, "delete-emptydir-data", false, "pods may lose the data in their emptyDir volumes")
	flags.BoolVar(&o.force, "force", false, "pods that nothing creates again may be evicted")
	flags.StringVar(&o.queueURL, "queue-url", "", "`URL` of the SQS queue that the handler reads")
	o.aws.flags(flags)
	flags.IntVar(&o.AbortLost, "abort-lost", 1000, "stop and put back once more queries than this are lost; 0 for never")
	flags.StringVar(&o.journal, "journal", "", "`folder` of the journals of what was changed; the default is in the user's state folder")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only print the plan, also with --allow")
	o.rights.flags(flags, "only print the namespace and the rights that --allow needs, as manifests")
	return cmd
}

// run plays each of the named drills, or each that is allowed.
func (o *liveOptions) run(cmd *cobra.Command, names []string) error {
	if err := o.complete(cmd); err != nil {
		return err
	}
	allowed := o.allow
	if o.rights.wanted {
		if len(allowed) == 0 {
			allowed = scenarios.Permissions()
		}
		return o.rights.print(cmd.OutOrStdout(), o.observeOptions, allowed)
	}
	if !cmd.Flags().Changed("context") && !cmd.Flags().Changed("kubeconfig") {
		return usage("name the cluster that is drilled: --context or --kubeconfig")
	}
	chosen, err := chooseLive(names, allowed)
	if err != nil {
		return err
	}
	c, err := o.connect(cmd.Context())
	if err != nil {
		return err
	}
	at, err := o.cluster.identify(cmd.Context(), c.Clientset)
	if err != nil {
		return err
	}
	printf(cmd.OutOrStdout(), "cluster: %s\n", at)
	if err := consent.NotPutBack(cmd.Context(), c.Clientset, o.journal, at); err != nil {
		return usage("%w", err)
	}
	var all []error
	for _, s := range chosen {
		if missing := o.missing(s.Observe.Permission); missing != "" && len(names) == 0 {
			printf(cmd.ErrOrStderr(), "%s: left out: it needs %s\n", s.Name, missing)
			continue
		}
		if err := o.drill(cmd, c, at, s, allowed); err != nil {
			all = append(all, fmt.Errorf("%s: %w", s.Name, err))
		}
		if cmd.Context().Err() != nil {
			break
		}
	}
	if worst := slices.IndexFunc(all, func(err error) bool { return codeOf(err) != exitUnknown }); worst > 0 {
		all[0], all[worst] = all[worst], all[0] // the first one's exit code counts
	}
	return errors.Join(all...)
}

// chooseLive are the drills of those names; without names, those that are allowed or, for a plan,
// all.
func chooseLive(names []string, allowed []scenarios.Permission) ([]scenarios.Scenario, error) {
	all, err := verdict.Scenarios().Live()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s scenarios.Scenario) bool {
			return len(allowed) > 0 && !slices.Contains(allowed, s.Observe.Permission)
		}), nil
	}
	var out []scenarios.Scenario
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
	}
	for _, name := range names {
		switch i := slices.Index(known, name); {
		case strings.HasSuffix(name, ".yaml"):
			s, err := verdict.Scenarios().LoadFile(name)
			if err != nil {
				return nil, exitError{exitUsage, err}
			}
			if s.Observe == nil || s.Observe.Permission == "" {
				return nil, usage("%s: needs observe.permission: everything else is only done to spotdrill's own cluster", name)
			}
			out = append(out, s)
		case i < 0:
			return nil, usage("%q is no drill of your own cluster; there are %s, or a file whose observe.permission is set", name, strings.Join(known, ", "))
		default:
			out = append(out, all[i])
		}
	}
	return out, nil
}

// missing is the flag that a drill needs and that was not given, or "".
func (o *liveOptions) missing(permission scenarios.Permission) string {
	switch {
	case permission != scenarios.EvictCoreDNS && o.node == "":
		return "--node"
	case permission == scenarios.SendNotice && o.queueURL == "":
		return "--queue-url"
	}
	return ""
}

// drill prints the plan of one drill and, with consent, plays it.
func (o *liveOptions) drill(cmd *cobra.Command, c *observe.Cluster, at consent.Cluster, s scenarios.Scenario, allowed []scenarios.Permission) error {
	ctx, permission := cmd.Context(), s.Observe.Permission
	request := consent.Request{
		Action: permission, Node: o.node, DeleteEmptyDir: o.emptyDir, Force: o.force,
		DNSNamespace: o.DNS.Namespace, DNSService: o.DNS.Name,
	}
	if missing := o.missing(permission); missing != "" {
		return usage("%s is missing: the node (kubectl get nodes), or the queue that the cluster's handler reads", missing)
	}
	if permission == scenarios.SendNotice {
		request.Notice, request.Queue = cloud.Notice{Type: history.SpotInterruption}, o.queueURL
	}
	plan, err := consent.Inspect(ctx, c.Clientset, request)
	if err != nil {
		return err
	}
	printf(cmd.OutOrStdout(), "%s: %s\n\n", s.Name, s.Title)
	if err := shown(cmd.OutOrStdout(), plan.WriteText); err != nil {
		return err
	}
	printf(cmd.OutOrStdout(), "\n")
	if err := plan.Refused(); err != nil {
		return exitError{exitUsage, err}
	}
	if o.dryRun {
		return nil
	}
	if !slices.Contains(allowed, permission) && !confirmed(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), permission) {
		if len(allowed) > 0 || terminal(cmd.InOrStdin()) {
			return usage("nothing was done: it needs --allow %s", permission)
		}
		printf(cmd.ErrOrStderr(), "nothing was done: --allow %s plays it\n", permission)
		return nil
	}
	return o.play(ctx, c, at, s, plan)
}

// terminal reports whether a person can answer.
func terminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// confirmed asks the person at the terminal; false if there is none.
func confirmed(ctx context.Context, in io.Reader, out io.Writer, permission scenarios.Permission) bool {
	if !terminal(in) {
		return false
	}
	printf(out, "Do it? Type %q to go on: ", permission)
	line, err := bufio.NewReader(interruptible(ctx, in)).ReadString('\n')
	return err == nil && strings.TrimSpace(line) == string(permission)
}

// play plays the plan while DNS is observed.
func (o *liveOptions) play(ctx context.Context, c *observe.Cluster, at consent.Cluster, s scenarios.Scenario, plan consent.Plan) (err error) {
	ctx, release, err := consent.Hold(ctx, c.Clientset, process())
	if errors.Is(err, consent.ErrHeld) {
		return exitError{exitUsage, err}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	journal, err := consent.OpenJournal(o.journal, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	send, err := o.sender(ctx, plan)
	if err != nil {
		return err
	}
	o.Scenario = s
	handler := history.Handler{Name: "none"}
	if s.Observe.Permission == scenarios.SendNotice {
		handler = history.Handler{Name: "the cluster's own", Unschedulable: true}
	}
	return observing(ctx, o.observeOptions, consented(c.Clientset, plan, journal, send), handler)
}

// consented does what a plan requires.
func consented(client kubernetes.Interface, plan consent.Plan, journal *consent.Journal, send func(context.Context) (string, error)) observe.Action {
	return observe.Action{
		Words: string(plan.Request.Action),
		Do: func(ctx context.Context, rec *history.Recorder) error {
			var put history.Event
			do := consent.Hooks{Record: func(e history.Event) {
				if e.Kind == history.NoticePut {
					put = e // recorded once its id is known
					return
				}
				rec.Record(e)
			}}
			if plan.Request.Node != "" {
				rec.Record(history.NewNodeRole(scenarios.ObservedNode, plan.Request.Node, history.Instance(plan.Instance)))
			}
			if send != nil {
				do.Send = func(ctx context.Context) error {
					at := rec.Clock().Now()
					id, err := send(ctx)
					put.At, put.Message, put.Until = at, id, new(at+noticeDeadline)
					rec.Record(put)
					return err
				}
			}
			return consent.Play(ctx, client, plan, journal, do)
		},
		Restore: func(ctx context.Context) ([]string, error) { return consent.Restore(ctx, client, journal) },
	}
}

// sender puts the notice of a plan into the queue; nil if it has none.
func (o *liveOptions) sender(ctx context.Context, plan consent.Plan) (func(context.Context) (string, error), error) {
	if plan.Request.Action != scenarios.SendNotice {
		return nil, nil //nolint:nilnil // nothing is sent
	}
	cfg, err := o.aws.config(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		ids, err := cloud.SendToQueue(ctx, cfg, o.queueURL, plan.Request.Notice)
		return strings.Join(ids, ","), err
	}, nil
}
