package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/recommend"
)

// deployed says where a cluster's CoreDNS is.
type deployed struct {
	kubeconfig, context, namespace, name string
}

func newRecommendCommand() *cobra.Command {
	var dns deployed
	var drills drillOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Hold a cluster's CoreDNS to the rules of going away unnoticed, and print the patch",
		Long: `Recommend reads the CoreDNS of any cluster: its Corefile, Deployment, disruption
budgets, and the capacity of its pods' nodes. It changes nothing. What does not
keep a rule is printed with the reason, the rule's source and the fix, and then
what puts it right: a Corefile, a patch of the Deployment, a PodDisruptionBudget,
and configuration of the EKS add-on. What these leave, the fix says.

With --drill the settings are measured: a matrix is drilled on spotdrill's own
cluster, the smallest setting first, until one loses nothing in as many drills as
show, at the confidence asked for, that at most 30 % of drills lose anything; and
the patch is for that one. The cluster that is drilled is the one that is read.
Another one's nodes are never taken away: with --stand-in spotdrill's own is
drilled in its place.

Exit code 0: nothing to warn of; 1: a rule is not kept, or no setting of the matrix
is safe; 2: of some rule, or whether a setting is safe, nobody can tell; 70: the
cluster could not be read.`,
		Example: `  spotdrill recommend
  spotdrill recommend --context production --json
  spotdrill recommend --drill --confidence 0.99`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if drills.wanted {
				return drills.advise(cmd, dns, asJSON)
			}
			if err := drills.unused(); err != nil {
				return err
			}
			found, err := dns.read(cmd.Context())
			if err != nil {
				return err
			}
			a, err := recommend.New(found.DNS)
			if err != nil {
				return err
			}
			return printAdvice(cmd, a, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dns.kubeconfig, "kubeconfig", "", "`file` that gives access to the cluster; kubectl's own without it, and with --drill spotdrill's")
	flags.StringVar(&dns.context, "context", "", "`context` in it; the current one without it")
	flags.StringVar(&dns.namespace, "namespace", "kube-system", "`namespace` of CoreDNS")
	flags.StringVar(&dns.name, "deployment", "coredns", "`name` of CoreDNS's Deployment")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	drills.flags(flags)
	return cmd
}

// printAdvice prints the advice; its error is the exit code that it calls for.
func printAdvice(cmd *cobra.Command, a recommend.Advice, asJSON bool) error {
	write := a.WriteText
	if asJSON {
		write = func(w io.Writer) error { return writeJSON(w, a) }
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	switch broken, unknown := a.Broken(); {
	case broken > 0:
		return exitError{exitFailed, fmt.Errorf("%d rules are not kept by %s", broken, a.Deployment)}
	case unknown > 0:
		return exitError{exitUnknown, fmt.Errorf("of %d rules nobody can tell whether %s keeps them", unknown, a.Deployment)}
	}
	return nil
}

// answerTimeout bounds each question to the cluster.
const answerTimeout = 15 * time.Second

// reading is what was read of a cluster.
type reading struct {
	recommend.DNS
	own bool // all nodes are spotdrill's
}

// read reads the cluster's CoreDNS. A kubeconfig that cannot be used is wrong
// usage.
func (d deployed) read(ctx context.Context) (reading, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = d.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: d.context}).ClientConfig()
	if err != nil {
		return reading{}, usage("no access to a cluster: %w; name one with --kubeconfig and --context", err)
	}
	config.Timeout = answerTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return reading{}, usage("no access to the cluster at %s: %w", config.Host, err)
	}
	found, err := recommend.Read(ctx, client, d.namespace, d.name)
	if err != nil {
		return reading{}, fmt.Errorf("cluster at %s: %w", config.Host, err)
	}
	own, err := cluster.AllOurs(ctx, client)
	return reading{found, own}, err
}
