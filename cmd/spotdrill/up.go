package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
)

func newUpCommand() *cobra.Command {
	opts := system.Options{Log: stderrLine}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create or reuse the cluster and LocalStack",
		Long: `Up creates the system, or reuses the one that is there, and prints its addresses as
export commands for a shell. The system stays until spotdrill down.

With --spare it goes on until Ctrl-C: what LocalStack's EC2 launches for the cluster, by
CreateFleet or RunInstances with the tag kubernetes.io/cluster/NAME=owned, joins as a node, and
leaves when its instance is terminated. Without it, nobody makes nodes of instances. With
--virtual as well, further instances become nodes on which nothing runs: kwok reports them, and
pods that tolerate the taint kwok.x-k8s.io/node, as Ready.`,
		Example: `  eval "$(spotdrill up)"; kubectl get nodes
  spotdrill up --spare 3 --virtual 20`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkSystem(opts); err != nil {
				return err
			}
			start := time.Now()
			sys, err := system.Up(cmd.Context(), opts)
			if err != nil {
				return err
			}
			endpoint, err := sys.LocalStack(cmd.Context())
			if err != nil {
				return err
			}
			kubeconfig, err := system.Kubeconfig(opts.Cluster)
			if err != nil {
				return err
			}
			stderrLine("up after %.0f s", time.Since(start).Seconds())
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG='%s'\nexport SPOTDRILL_LOCALSTACK='%s'\n", kubeconfig, endpoint); err != nil {
				return fmt.Errorf("print the addresses: %w", err)
			}
			if opts.Spares > 0 {
				stderrLine("%d spare workers and %d virtual nodes wait for launches; Ctrl-C ends this, and leaves the cluster", opts.Spares, opts.Virtual)
				<-cmd.Context().Done()
			}
			return sys.Release()
		},
	}
	systemFlags(cmd.Flags(), &opts)
	cmd.Flags().IntVar(&opts.Spares, "spare", 0, "`number` of spare workers, which become the nodes of launched instances")
	cmd.Flags().IntVar(&opts.Virtual, "virtual", 0, "`number` of virtual nodes, for instances that find no spare worker; requires --spare")
	return cmd
}

// maxSpares is how many spare workers a cluster may have: each takes some 150 MiB of memory,
// and two seconds more until the cluster is up.
const maxSpares = 10

// maxVirtual is how many virtual nodes there may be: each has a range of 256 pod addresses.
const maxVirtual = 100

// systemFlags show which system is brought up, and from what.
func systemFlags(flags *pflag.FlagSet, opts *system.Options) {
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	clusterFlag(flags, opts)
	flags.StringVar((*string)(&opts.ProxyMode), "proxy-mode", string(history.IPTables), "kube-proxy's `mode`: "+strings.Join(history.Words(history.ProxyModes()), ", "))
	flags.StringVar(&opts.Source, "source", ".", "`folder` of a checkout, to build images if no registry answers")
	flags.StringVar(&opts.Binary, "binary", self, "static spotdrill `file` to run in the cluster")
	flags.Lookup("binary").DefValue = "this program"
}

// checkSystem reports errors that would otherwise show only after minutes.
func checkSystem(opts system.Options) error {
	if modes := history.ProxyModes(); !slices.Contains(modes, opts.ProxyMode) {
		return usage("--proxy-mode is %q; allowed: %s", opts.ProxyMode, strings.Join(history.Words(modes), ", "))
	}
	if opts.Spares < 0 || opts.Spares > maxSpares {
		return usage("--spare is %d; allowed: 0 to %d", opts.Spares, maxSpares)
	}
	if opts.Virtual < 0 || opts.Virtual > maxVirtual {
		return usage("--virtual is %d; allowed: 0 to %d", opts.Virtual, maxVirtual)
	}
	if opts.Virtual > 0 && opts.Spares == 0 {
		return usage("--virtual requires --spare: nothing looks for launches without it")
	}
	return nil
}

func clusterFlag(flags *pflag.FlagSet, opts *system.Options) {
	flags.StringVar(&opts.Cluster, "cluster", system.DefaultCluster, "`name` of the kind cluster")
}

func newDownCommand() *cobra.Command {
	opts := system.Options{Log: stderrLine}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster, its containers and its network",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := system.Down(cmd.Context(), opts); err != nil {
				return err
			}
			stderrLine("removed cluster %s, its containers and its network", opts.Cluster)
			return nil
		},
	}
	clusterFlag(cmd.Flags(), &opts)
	return cmd
}
