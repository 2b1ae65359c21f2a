package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/vpccni"
)

// newVPCCNICommand runs in the pods of the stand-in of the EKS add-on vpc-cni. Its values are
// environment variables, as the add-on's are.
func newVPCCNICommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "vpc-cni",
		Short:  "Do on a node what the EKS add-on vpc-cni does",
		Hidden: true,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "init",
		Short: "Write net.ipv4.tcp_early_demux",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return vpccni.Init(os.Getenv(vpccni.DisableEarlyDemux) == "true")
		},
	}, &cobra.Command{
		Use:   "run",
		Short: "Drop what does not reach pods with security groups of their own",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := inCluster()
			if err != nil {
				return err
			}
			return vpccni.Run(cmd.Context(), api, vpccni.Config{
				Node: os.Getenv("MY_NODE_NAME"), Namespace: os.Getenv("MY_NAMESPACE"), PodENI: os.Getenv(vpccni.PodENI) == "true",
				Root: "/host", Listen: "127.0.0.1:61679",
			}, slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		},
	})
	return cmd
}
