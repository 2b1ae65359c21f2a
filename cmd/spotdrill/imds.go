package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/imds"
)

// newIMDSCommand runs in the pods that serve instance metadata.
func newIMDSCommand() *cobra.Command {
	cfg := imds.Config{Account: cloud.Account, Root: "/host"}
	cmd := &cobra.Command{
		Use:    "imds",
		Short:  "Stand in for the instance metadata service on a node",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := rest.InClusterConfig()
			if err != nil {
				return fmt.Errorf("reach the cluster: %w", err)
			}
			api, err := kubernetes.NewForConfig(cluster)
			if err != nil {
				return fmt.Errorf("reach the cluster: %w", err)
			}
			cfg.Node = os.Getenv("NODE_NAME")
			return imds.Run(cmd.Context(), api, cfg, slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	cmd.Flags().IntVar(&cfg.HopLimit, "hop-limit", 1, "the number of hops that the answer with a token may make")
	cmd.Flags().StringVar(&cfg.Control, "control", ":8169", "the address at which a drill controls it")
	return cmd
}
