package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
)

// sendOptions are the flags of spotdrill send.
type sendOptions struct {
	awsAccess
	instances, details []string
	queueURL, bus      string
	dryRun             bool
}

func newSendCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:       "send KIND --instance ID",
		Short:     "Send a synthetic interruption notice to any SQS queue, event bus or LocalStack",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: history.Words(history.NoticeTypes()),
		RunE: func(cmd *cobra.Command, args []string) error {
			notice, err := o.notice(args[0])
			if err != nil {
				return exitError{exitUsage, err}
			}
			ids, err := o.send(cmd.Context(), notice)
			for _, id := range ids { // also those from before an error
				printf(cmd.OutOrStdout(), "%s\n", cmp.Or(id, "refused"))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.instances, "instance", nil, "`id` of the EC2 instance; repeatable")
	flags.StringArrayVar(&o.details, "detail", nil, "`field=value` to set in the event's detail, such as state=stopping or instance-action=stop; repeatable")
	flags.StringVar(&o.queueURL, "queue-url", "", "`URL` of the SQS queue to put it into")
	flags.StringVar(&o.bus, "event-bus", "", "`name` or ARN of the event bus to put it on")
	o.flags(flags)
	flags.BoolVar(&o.dryRun, "dry-run", false, "only print what would be sent, one message body on each line")
	return cmd
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// notice is the notice that the flags describe.
func (o sendOptions) notice(kind string) (cloud.Notice, error) {
	n := cloud.Notice{Type: history.NoticeType(kind), Instances: o.instances, Detail: map[string]any{}}
	switch {
	case len(o.instances) == 0:
		return n, fmt.Errorf("--instance is missing: give the instance's id, such as i-0123456789abcdef0 (kubectl get nodes -o custom-columns=NAME:.metadata.name,ID:.spec.providerID)")
	case !o.dryRun && (o.queueURL == "") == (o.bus == ""):
		return n, fmt.Errorf("no destination: give either --queue-url or --event-bus, or --dry-run")
	}
	if i := slices.IndexFunc(o.instances, func(id string) bool { return !instanceID.MatchString(id) }); i >= 0 {
		return n, fmt.Errorf("--instance is %q: want an instance id, such as i-0123456789abcdef0", o.instances[i])
	}
	for _, detail := range o.details {
		name, value, ok := strings.Cut(detail, "=")
		if !ok || name == "" {
			return n, fmt.Errorf("--detail is %q: want field=value", detail)
		}
		n.Detail[name] = value
	}
	return n, nil
}

// send sends the notice and returns the ids of its messages or events. With --dry-run
// it sends nothing and returns the bodies of the messages.
func (o sendOptions) send(ctx context.Context, n cloud.Notice) ([]string, error) {
	if o.dryRun {
		return bodies(n, o.region)
	}
	cfg, err := o.config(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	if o.queueURL != "" {
		ids, err = cloud.SendToQueue(ctx, cfg, o.queueURL, n)
	} else {
		ids, err = cloud.SendToBus(ctx, cfg, o.bus, n)
	}
	if err != nil {
		return ids, exitError{exitFailed, err}
	}
	return ids, nil
}

// bodies are the messages of a notice as they would arrive in a queue.
func bodies(n cloud.Notice, region string) ([]string, error) {
	envelopes, err := n.Envelopes(cmp.Or(region, "us-east-1"), time.Now())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range envelopes {
		body, err := e.Body()
		if err != nil {
			return nil, err
		}
		out = append(out, body)
	}
	return out, nil
}
