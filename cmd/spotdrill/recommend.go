package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recommend"
)

// deployed names a cluster's CoreDNS.
type deployed struct {
	clusterAccess
	namespace, name string
}

func newRecommendCommand() *cobra.Command {
	var dns deployed
	var drills drillOptions
	var asJSON, inAWS, tryNextPod bool
	var addOnValues string
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Find settings of a cluster's CoreDNS and Karpenter that lose queries, and print a patch",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if drills.wanted && tryNextPod {
				return usage("--try-next-pod and --drill cannot be used together")
			}
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
			if inAWS {
				if a, err = lookUpQueue(cmd.Context(), a); err != nil {
					return err
				}
			}
			if addOnValues != "" {
				values, err := readAddOnValues(addOnValues)
				if err != nil {
					return err
				}
				a = a.WithAddOnValues(values)
			}
			if tryNextPod {
				f, err := recommend.TryNextPod(cmd.Context(), found.client, found.DNS)
				if err != nil {
					return err
				}
				a = a.With(f...)
			}
			return printAdvice(cmd, a, asJSON)
		},
	}
	flags := cmd.Flags()
	dns.flags(flags)
	flags.Lookup("kubeconfig").Usage += ", or with --drill that of spotdrill's cluster"
	flags.StringVar(&dns.namespace, "namespace", "kube-system", "`namespace` of CoreDNS")
	flags.StringVar(&dns.name, "deployment", "coredns", "`name` of CoreDNS's Deployment")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.BoolVar(&inAWS, "aws", false, "also look up Karpenter's interruption queue and its rules, with your AWS credentials (read-only)")
	flags.BoolVar(&tryNextPod, "try-next-pod", false, "also start one pod with CoreDNS's image and Corefile, which gets no query, and delete it: does the next pod start?")
	flags.StringVar(&addOnValues, "add-on-values", "", "also check a `file` with the configuration values of the EKS add-on coredns, JSON or YAML")
	drills.flags(flags)
	return cmd
}

func readAddOnValues(file string) (recommend.AddOnValues, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return recommend.AddOnValues{}, usage("--add-on-values: %w", err)
	}
	values, err := recommend.ReadAddOnValues(text)
	if err != nil {
		return values, usage("--add-on-values %s: %w", file, err)
	}
	return values, nil
}

// lookUpQueue looks up the interruption queue, if Karpenter has one.
func lookUpQueue(ctx context.Context, a recommend.Advice) (recommend.Advice, error) {
	queue := a.InterruptionQueue()
	if queue == "" {
		return a, nil
	}
	cfg, err := awsAccess{}.config(ctx)
	if err != nil {
		return a, err
	}
	found, err := cloud.NoticesThatReach(ctx, cfg, queue)
	if err != nil {
		return a, err
	}
	q := recommend.Queue{Name: queue, Missing: found.ARN == "", Refused: found.Refused}
	for _, t := range found.Unheard {
		// Older versions of Karpenter have no rule for the first, and none for the others.
		if t != history.CapacityReservationInterruption && t != history.LifecycleAction && t != history.CapacityBlockExpiration {
			q.Unheard = append(q.Unheard, string(t))
		}
	}
	return a.WithQueue(q), nil
}

// printAdvice prints the advice. Its error has the exit code.
func printAdvice(cmd *cobra.Command, a recommend.Advice, asJSON bool) error {
	if err := show(cmd, asJSON, a, a.WriteText); err != nil {
		return err
	}
	switch broken, unknown := a.Broken(); {
	case broken > 0:
		return exitError{exitFailed, fmt.Errorf("%d rules are violated by %s", broken, a.Deployment)}
	case unknown > 0:
		return exitError{exitUnknown, fmt.Errorf("%d rules could not be evaluated for %s", unknown, a.Deployment)}
	}
	return nil
}

// reading is what was read of a cluster.
type reading struct {
	recommend.DNS
	own    bool // all nodes are spotdrill's
	client kubernetes.Interface
}

// read reads the cluster's CoreDNS. A kubeconfig that cannot be used is a usage
// error.
func (d deployed) read(ctx context.Context) (reading, error) {
	config, err := d.config()
	if err != nil {
		return reading{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return reading{}, usage("no access to the cluster at %s: %w", config.Host, err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return reading{}, usage("no access to the cluster at %s: %w", config.Host, err)
	}
	found, err := recommend.Read(ctx, client, objects, d.namespace, d.name)
	if err != nil {
		return reading{}, fmt.Errorf("cluster at %s: %w", config.Host, err)
	}
	own, err := cluster.AllOurs(ctx, client)
	return reading{found, own, client}, err
}
