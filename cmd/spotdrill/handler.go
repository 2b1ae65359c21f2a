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
		Short: "Handle interruption notices: the built-in handler, run in a Deployment",
		Long: `Take EC2 interruption notices from an SQS queue and drain the nodes whose
instances they name: cordon, taint karpenter.sh/disrupted:NoSchedule, evict by
the Eviction API. Logs are JSON lines on stderr.

AWS credentials come from the AWS SDK's default chain. The queue's policy must
allow sqs:ReceiveMessage and sqs:DeleteMessage, and sqs:GetQueueUrl where the
queue is given by name.`,
		Args: cobra.NoArgs,
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
	flags.StringVar(&cfg.QueueName, "queue-name", os.Getenv("QUEUE_NAME"), "name of the SQS queue, where its URL is not given [QUEUE_NAME]")
	flags.StringVar(&cfg.Endpoint, "endpoint", os.Getenv("AWS_ENDPOINT_URL"), "where to reach SQS; AWS's own when empty [AWS_ENDPOINT_URL]")
	flags.StringVar(&cfg.Region, "region", os.Getenv("AWS_REGION"), "AWS region [AWS_REGION]")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file, for running outside of a cluster")
	flags.StringVar(&cfg.Listen, "listen", ":8080", "address of /metrics, /healthz and /readyz")
	flags.IntVar(&cfg.Workers, "workers", 10, "messages handled at a time")
	flags.DurationVar(&cfg.CriticalAfter, "critical-after", 30*time.Second, "how long critical pods wait for the others to be gone")
	flags.DurationVar(&cfg.DrainTimeout, "drain-timeout", 0, "give a drain up after this time; 0 never does")
	flags.DurationVar(&cfg.ShutdownGrace, "shutdown-grace", 20*time.Second, "how long running drains may go on after SIGTERM; an eviction that was asked for may take 30s more, so keep it at least 30s under the pod's grace period")
	return cmd
}
