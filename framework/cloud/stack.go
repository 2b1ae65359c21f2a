package cloud

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

//go:embed stack.yaml
var stackTemplate string

// StackTemplate is the template of the queue and the rules that drills use.
func StackTemplate() string { return stackTemplate }

const stackTimeout = 2 * time.Minute

// clusterName matches names that are valid for both a stack and a queue.
var clusterName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,62}$`)

// DeployStack creates the queue of that name and the rules that send to it. A complete
// stack of this template is reused; any other is deleted and created again. If that fails, the error
// includes the stack's events. It takes up to two minutes.
func (a *AWS) DeployStack(ctx context.Context, cluster string) error {
	if !clusterName.MatchString(cluster) {
		return fmt.Errorf("deploy stack: cluster name %q does not match %s", cluster, clusterName)
	}
	ctx, cancel := context.WithTimeout(ctx, stackTimeout)
	defer cancel()
	if err := a.ensureStack(ctx, cluster); err != nil {
		return fmt.Errorf("deploy stack of cluster %s: %w", cluster, err)
	}
	out, err := a.queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &cluster})
	if err != nil {
		return fmt.Errorf("deploy stack of cluster %s: find its queue: %w", cluster, err)
	}
	a.queueURL = aws.ToString(out.QueueUrl)
	// A run that was killed can have left it otherwise.
	_, err = a.KeepMessages(ctx, retention)
	return wrap.Errorf(err, "deploy stack of cluster %s", cluster)
}

// QueueURL is the queue's URL for a client that reaches SQS at endpoint, for instance
// through the proxy. An empty endpoint gives LocalStack's own URL, whose host only
// public DNS knows. It is empty before DeployStack.
func (a *AWS) QueueURL(endpoint string) string {
	own, err := url.Parse(a.queueURL)
	if err != nil || endpoint == "" || a.queueURL == "" {
		return a.queueURL
	}
	return strings.TrimSuffix(endpoint, "/") + own.Path
}

func (a *AWS) ensureStack(ctx context.Context, cluster string) error {
	stack := stackName(cluster)
	status, err := a.settledStack(ctx, stack)
	if err != nil {
		return err
	}
	if status == absent {
		return a.createStack(ctx, stack, stackTemplate, parametersOf(cluster))
	}
	if status == types.StackStatusCreateComplete || status == types.StackStatusUpdateComplete {
		// Another version of the product may have created it, with other rules.
		out, err := a.stacks.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &stack})
		if err != nil {
			return fmt.Errorf("read its template: %w", err)
		}
		same := strings.TrimSpace(aws.ToString(out.TemplateBody)) == strings.TrimSpace(stackTemplate)
		queue, err := findQueue(ctx, a.queues, cluster)
		if err != nil || same && queue != "" {
			return err
		}
		// A run that was killed can have left it without its queue. LocalStack may then fail to delete the policy of that queue,
		// and with it the stack: whether it does depends on the order in which it deletes the two.
		if queue == "" {
			if _, err := a.queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &cluster}); err != nil {
				return fmt.Errorf("create the queue of a stack that has lost it: %w", err)
			}
		}
	}
	if err := a.DeleteStack(ctx, cluster); err != nil {
		return fmt.Errorf("remove the failed or outdated one: %w", err)
	}
	return a.createStack(ctx, stack, stackTemplate, parametersOf(cluster))
}

// DeleteStack deletes the cluster's stack with its queue and rules and waits until it
// is gone.
func (a *AWS) DeleteStack(ctx context.Context, cluster string) error {
	stack := stackName(cluster)
	if _, err := a.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &stack}); err != nil {
		return fmt.Errorf("delete stack %s: %w", stack, err)
	}
	status, err := a.settledStack(ctx, stack)
	if err != nil {
		return fmt.Errorf("delete stack %s: %w", stack, err)
	}
	if status != absent {
		return fmt.Errorf("delete stack %s: it is %s: %s", stack, status, a.stackEvents(ctx, stack))
	}
	return nil
}

// stackName is the name of a cluster's stack.
func stackName(cluster string) string { return "spotdrill-" + cluster }

func parametersOf(cluster string) []types.Parameter {
	return []types.Parameter{{ParameterKey: aws.String(clusterParameter), ParameterValue: &cluster}}
}

func (a *AWS) createStack(ctx context.Context, stack, template string, parameters []types.Parameter) error {
	_, err := a.stacks.CreateStack(ctx, &cloudformation.CreateStackInput{StackName: &stack, TemplateBody: &template, Parameters: parameters})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	status, err := a.settledStack(ctx, stack)
	if err != nil {
		return err
	}
	if status != types.StackStatusCreateComplete {
		return fmt.Errorf("it is %s: %s", status, a.stackEvents(ctx, stack))
	}
	return nil
}

// absent is the status of a stack that does not exist.
const absent types.StackStatus = ""

// settledStack waits until no operation is in progress and returns the status.
func (a *AWS) settledStack(ctx context.Context, stack string) (types.StackStatus, error) {
	for {
		status, err := a.stackStatus(ctx, stack)
		if err != nil {
			return absent, fmt.Errorf("describe: %w", err)
		}
		if !strings.HasSuffix(string(status), "_IN_PROGRESS") {
			return status, nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return absent, fmt.Errorf("%w, last seen %s: %s", ctx.Err(), status, a.stackEvents(context.WithoutCancel(ctx), stack))
		}
	}
}

func (a *AWS) stackStatus(ctx context.Context, stack string) (types.StackStatus, error) {
	out, err := a.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &stack})
	var refused smithy.APIError
	if errors.As(err, &refused) && strings.Contains(refused.ErrorMessage(), "does not exist") {
		return absent, nil
	}
	if err != nil {
		return absent, err
	}
	if len(out.Stacks) == 0 || out.Stacks[0].StackStatus == types.StackStatusDeleteComplete {
		return absent, nil
	}
	return out.Stacks[0].StackStatus, nil
}

// stackEvents lists the status of each resource, newest first.
func (a *AWS) stackEvents(ctx context.Context, stack string) string {
	out, err := a.stacks.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	if err != nil {
		return fmt.Sprintf("its events cannot be read: %v", err)
	}
	lines := make([]string, 0, len(out.StackEvents))
	for _, e := range out.StackEvents {
		line := fmt.Sprintf("%s %s", aws.ToString(e.LogicalResourceId), e.ResourceStatus)
		if e.ResourceStatusReason != nil {
			line += " (" + *e.ResourceStatusReason + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}
