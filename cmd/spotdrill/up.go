package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/run"
)

// stderrLine writes a line for the user; standard output is for data.
func stderrLine(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func newUpCommand() *cobra.Command {
	opts := run.Options{Log: stderrLine}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring up the cluster, LocalStack and what belongs to them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			start := time.Now()
			if _, err := run.Up(cmd.Context(), opts); err != nil {
				return err
			}
			stderrLine("up after %.0f s", time.Since(start).Seconds())
			return nil
		},
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	cmd.Flags().StringVar(&opts.Cluster, "cluster", run.DefaultCluster, "name of the kind cluster")
	cmd.Flags().StringVar(&opts.ProxyMode, "proxy-mode", "iptables", "kube-proxy's mode: iptables or nftables")
	cmd.Flags().StringVar(&opts.Source, "source", ".", "checkout to build images from where no registry answers")
	cmd.Flags().StringVar(&opts.Binary, "binary", self, "static spotdrill binary to run in the cluster")
	return cmd
}

func newDownCommand() *cobra.Command {
	opts := run.Options{Log: stderrLine}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster, its containers and its network, and nothing else",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := run.Down(cmd.Context(), opts); err != nil {
				return err
			}
			stderrLine("cluster %s, its containers and its network are gone", opts.Cluster)
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Cluster, "cluster", run.DefaultCluster, "name of the kind cluster")
	return cmd
}
