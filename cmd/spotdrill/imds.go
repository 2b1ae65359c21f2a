package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/imds"
)

// newIMDSCommand runs in the pods that serve instance metadata.
func newIMDSCommand() *cobra.Command {
	cfg := imds.Config{Account: cloud.Account, Root: "/host"}
	cmd := &cobra.Command{
		Use:    "imds",
		Short:  "Serve the instance metadata of a node, in place of EC2",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := inCluster()
			if err != nil {
				return err
			}
			cfg.Node = os.Getenv("NODE_NAME")
			return imds.Run(cmd.Context(), api, cfg, slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	cmd.Flags().IntVar(&cfg.HopLimit, "hop-limit", 1, "the number of hops that the answer with a token may make")
	cmd.Flags().StringVar(&cfg.Control, "control", ":8169", "the address at which a drill controls it")
	return cmd
}
