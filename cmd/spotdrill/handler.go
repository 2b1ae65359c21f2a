package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/spotdrill/spotdrill/framework/handler/builtin"
)

// newHandlerCommand runs the built-in interruption handler, in a pod or outside.
func newHandlerCommand() *cobra.Command {
	var cfg builtin.Config
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "handler",
		Short: "Handle interruption notices: the built-in handler, which runs in a Deployment",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
			klog.SetSlogLogger(log) // client-go's lines in the same form
			cluster, err := rest.InClusterConfig()
			if kubeconfig != "" {
				cluster, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
			}
			if err != nil {
				return exitError{exitUsage, fmt.Errorf("reach the cluster (in a pod, or with --kubeconfig): %w", err)}
			}
			err = builtin.Run(cmd.Context(), cluster, cfg, log)
			if errors.Is(err, builtin.ErrConfig) {
				return exitError{exitUsage, err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.QueueURL, "queue-url", os.Getenv("QUEUE_URL"), "URL of the SQS queue [QUEUE_URL]")
	flags.StringVar(&cfg.QueueName, "queue-name", os.Getenv("QUEUE_NAME"), "name of the SQS queue, instead of its URL [QUEUE_NAME]")
	flags.StringVar(&cfg.Endpoint, "endpoint", os.Getenv("AWS_ENDPOINT_URL"), "URL of SQS; empty for AWS [AWS_ENDPOINT_URL]")
	flags.StringVar(&cfg.Region, "region", os.Getenv("AWS_REGION"), "AWS region [AWS_REGION]")
	flags.StringVar(&cfg.Metadata, "metadata-url", os.Getenv("INSTANCE_METADATA_URL"), "URL of the instance metadata service, which is read in place of a queue [INSTANCE_METADATA_URL]")
	flags.StringVar(&cfg.Node, "node", os.Getenv("NODE_NAME"), "name of the node whose metadata is read, the only one that is drained then [NODE_NAME]")
	flags.StringVar(&cfg.NodeSelector, "node-selector", os.Getenv("NODE_SELECTOR"), "labels of the nodes that it acts on, such as pool=spot; empty for all nodes [NODE_SELECTOR]")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `file`, to run outside of the cluster")
	flags.StringVar(&cfg.Listen, "listen", ":8080", "address of /metrics, /healthz and /readyz")
	flags.IntVar(&cfg.Workers, "workers", 10, "number of messages handled at the same time")
	flags.DurationVar(&cfg.CriticalAfter, "critical-after", 30*time.Second, "how long critical pods wait until the other pods are gone")
	flags.DurationVar(&cfg.DrainTimeout, "drain-timeout", 0, "time after which a drain is given up; 0 for never")
	flags.DurationVar(&cfg.ShutdownGrace, "shutdown-grace", 20*time.Second, "how long drains may continue after SIGTERM; an eviction that was already requested may take 30s more, so keep this at least 30s below the pod's grace period")
	return cmd
}
