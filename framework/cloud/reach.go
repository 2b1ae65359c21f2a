package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Reach is what reaches a queue of the notices that AWS puts on the default event bus.
type Reach struct {
	// ARN is the queue's; empty if there is no such queue.
	ARN string
	// Unheard are the types of notices that no enabled rule sends to the queue.
	Unheard []history.NoticeType
	// Refused is why the queue's policy does not let EventBridge send to it; empty if it does.
	Refused string
}

// NoticesThatReach looks up the queue with that name, its policy, and the rules of the default
// event bus that have it as a target. It changes nothing. It needs the rights to
// sqs:GetQueueUrl, sqs:GetQueueAttributes, events:ListRuleNamesByTarget and
// events:DescribeRule.
func NoticesThatReach(ctx context.Context, cfg aws.Config, queue string) (Reach, error) {
	client := sqs.NewFromConfig(cfg)
	url, err := findQueue(ctx, client, queue)
	if url == "" || err != nil {
		return Reach{}, err
	}
	const document, arn = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn
	attributes, err := attributesOf(ctx, client, url, document, arn)
	if err != nil {
		return Reach{}, fmt.Errorf("read the attributes of queue %s: %w", queue, err)
	}
	r := Reach{ARN: attributes[string(arn)]}
	r.Refused = whyRefused(attributes[string(document)], r.ARN)
	rules, err := rulesTo(ctx, eventbridge.NewFromConfig(cfg), r.ARN)
	if err != nil {
		return Reach{}, fmt.Errorf("read the EventBridge rules to queue %s: %w", queue, err)
	}
	for _, t := range history.NoticeTypes() {
		source, detailType := pattern(t)
		if !slices.ContainsFunc(rules, func(p eventPattern) bool { return p.matches(source, detailType) }) {
			r.Unheard = append(r.Unheard, t)
		}
	}
	return r, nil
}

// rulesTo reads the patterns of the enabled rules that have that target.
func rulesTo(ctx context.Context, client *eventbridge.Client, target string) ([]eventPattern, error) {
	var out []eventPattern
	for next := (*string)(nil); ; {
		names, err := client.ListRuleNamesByTarget(ctx, &eventbridge.ListRuleNamesByTargetInput{TargetArn: &target, NextToken: next})
		if err != nil {
			return nil, err
		}
		for _, name := range names.RuleNames {
			rule, err := client.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: &name})
			if err != nil {
				return nil, err
			}
			if rule.State != ebtypes.RuleStateEnabled || aws.ToString(rule.EventPattern) == "" {
				continue
			}
			var p eventPattern
			if err := json.Unmarshal([]byte(*rule.EventPattern), &p); err != nil {
				return nil, fmt.Errorf("event pattern of rule %s: %w", name, err)
			}
			out = append(out, p)
		}
		if next = names.NextToken; next == nil {
			return out, nil
		}
	}
}

// eventPattern is the part of an event pattern that decides about a type of notice.
type eventPattern struct {
	Source     []json.RawMessage `json:"source"`
	DetailType []json.RawMessage `json:"detail-type"`
}

// matches reports whether the pattern may match: an element that is no plain text, such as a
// prefix, counts as one that does.
func (p eventPattern) matches(source, detailType string) bool {
	may := func(elements []json.RawMessage, value string) bool {
		return len(elements) == 0 || slices.ContainsFunc(elements, func(e json.RawMessage) bool {
			var text string
			return json.Unmarshal(e, &text) != nil || text == value
		})
	}
	return may(p.Source, source) && may(p.DetailType, detailType)
}
