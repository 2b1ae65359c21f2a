package cloud

import (
	"context"
	"fmt"

	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/iam"
)

// eventBridge is the principal that delivers what rules match.
const eventBridge = "events.amazonaws.com"

// RefusesEventBridge returns why the queue's policy does not let EventBridge send to
// the queue, or "" if it does. LocalStack ignores the policy; AWS does not:
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html.
func (a *AWS) RefusesEventBridge(ctx context.Context) (why string, err error) {
	const document, arn = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn
	found, err := a.attributes(ctx, document, arn)
	if err != nil {
		return "", fmt.Errorf("queue policy: %w", err)
	}
	return whyRefused(found[string(document)], found[string(arn)]), nil
}

// whyRefused returns why the policy does not let EventBridge send to the queue, or "".
func whyRefused(policy, queue string) string {
	if policy == "" {
		return "the queue has no policy, and without one " + eventBridge + " may not send to it"
	}
	p, err := iam.ParseResource([]byte(policy))
	if err != nil {
		return "the queue's policy cannot be read: " + err.Error()
	}
	switch allowed, denied := p.Lets(eventBridge, "sqs:SendMessage", queue); {
	case denied:
		return "the queue's policy denies sqs:SendMessage to " + eventBridge
	case !allowed:
		return "no statement of the queue's policy allows sqs:SendMessage on " + queue + " to " + eventBridge
	}
	return ""
}
