package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/rundelay"
	"github.com/spotdrill/spotdrill/framework/vpccni"
)

// newConntrackCommand runs on the prober's node, in the network of its host.
func newConntrackCommand() *cobra.Command {
	var server guarded
	var client string
	var services []string
	cmd := &cobra.Command{
		Use:    "conntrack",
		Short:  "Record to which pods this node sends a client's queries and requests",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := netip.ParseAddr(client)
			if err != nil {
				return usage("--client is %q: want an IP address", client)
			}
			to := conntrack.Services{}
			for _, text := range services {
				name, address, named := strings.Cut(text, "=")
				if !named {
					name, address = "", text
				}
				service, err := netip.ParseAddrPort(address)
				if err != nil {
					return usage("--service is %q: want an IP address and port, such as 10.96.0.10:53, or application=10.96.12.7:80", text)
				}
				to[service] = name
			}
			if len(to) == 0 {
				return usage("--service is missing: give an IP address and port, such as 10.96.0.10:53")
			}
			listener, token, err := server.listen(cmd.Context())
			if err != nil {
				return err
			}
			return conntrack.Serve(cmd.Context(), listener, token, from, to)
		},
	}
	server.flags(cmd.Flags())
	cmd.Flags().StringVar(&client, "client", "", "the client's IP `address`")
	cmd.Flags().StringArrayVar(&services, "service", nil, "a service's `address:port`, or TARGET=address:port; repeatable")
	return cmd
}

// newWaitsCommand runs together with a drill, on its machine. It ends when its standard input does.
func newWaitsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    rundelay.Command,
		Short:  "Record for how long processes of pods wait for a processor",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return rundelay.Serve(context.WithoutCancel(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// newIMDSCommand runs in the pods that serve instance metadata.
func newIMDSCommand() *cobra.Command {
	cfg := imds.Config{Account: cloud.Account, Root: "/host"}
	var tokenFile string
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
			if cfg.Token, err = guard.ReadToken(tokenFile); err != nil {
				return usage("--token-file: %w", err)
			}
			cfg.Node = os.Getenv("NODE_NAME")
			return imds.Run(cmd.Context(), api, cfg, slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	cmd.Flags().IntVar(&cfg.HopLimit, "hop-limit", 1, "the number of hops that the answer with a token may make")
	cmd.Flags().StringVar(&cfg.AccessKey, "access-key", "test", "the id of the credentials of the instance's role")
	cmd.Flags().StringVar(&cfg.Control, "control", ":8169", "the address at which a drill controls it")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "`file` with a token that every request to --control must carry; empty: none is required")
	return cmd
}

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

// inCluster is a client of the cluster that this process runs in, with the rights of its pod.
func inCluster() (kubernetes.Interface, error) {
	cluster, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	api, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return api, nil
}
