package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
)

// Reach is what reaches a queue of the notices that AWS puts on the default event bus.
type Reach struct {
	// ARN is the queue's; empty if there is no such queue.
	ARN string
	// Unheard are the types of notices that no enabled rule sends to the queue.
	Unheard []history.NoticeType
	// Policy is whether the queue's policy lets EventBridge send to it, and Encryption whether its key does.
	Policy, Encryption iam.Decision
}

// NoticesThatReach looks up the queue with that name, its policy and encryption, and the rules of the
// default event bus that have it as a target. It changes nothing. It needs the rights to
// sqs:GetQueueUrl, sqs:GetQueueAttributes, events:ListRuleNamesByTarget and
// events:DescribeRule; with events:TestEventPattern, AWS itself judges the patterns.
func NoticesThatReach(ctx context.Context, cfg aws.Config, queue string) (Reach, error) {
	client := sqs.NewFromConfig(cfg)
	url, err := findQueue(ctx, client, queue)
	if url == "" || err != nil {
		return Reach{}, err
	}
	const document, arn, key = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn, sqstypes.QueueAttributeNameKmsMasterKeyId
	attributes, err := attributesOf(ctx, client, url, document, arn, key)
	if err != nil {
		return Reach{}, fmt.Errorf("read the attributes of queue %s: %w", queue, err)
	}
	q := Queue{ARN: attributes[string(arn)], Key: attributes[string(key)]}
	if text := attributes[string(document)]; text != "" {
		policy, err := iam.ParseResource([]byte(text))
		if err != nil {
			q.PolicyUnread = "the queue's policy cannot be read: " + err.Error()
		}
		q.Policy = &policy
	}
	events := eventbridge.NewFromConfig(cfg)
	found, err := rulesTo(ctx, events, q.ARN)
	if err != nil {
		return Reach{}, fmt.Errorf("read the EventBridge rules to queue %s: %w", queue, err)
	}
	rules := make([]Rule, len(found))
	for i := range found {
		rules[i] = found[i].Rule
	}
	r := Reach{ARN: q.ARN, Policy: q.Lets(rules), Encryption: q.Encrypts(rules)}
	for _, t := range history.NoticeTypes() {
		heard := false
		for _, rule := range found {
			heard = heard || rule.hears(ctx, events, cfg.Region, q.ARN, t)
		}
		if !heard {
			r.Unheard = append(r.Unheard, t)
		}
	}
	return r, nil
}

// deployedRule is an enabled rule in AWS.
type deployedRule struct {
	Rule
	text    string // its event pattern
	pattern eventPattern
}

// hears reports whether the rule matches a notice of that type, as AWS judges it; if that is not permitted,
// whether it may.
func (r deployedRule) hears(ctx context.Context, client *eventbridge.Client, region, queue string, t history.NoticeType) bool {
	source, detailType := pattern(t)
	if !r.pattern.matches(source, detailType) {
		return false
	}
	envelopes, err := Notice{Type: t, Instances: []string{"i-0123456789abcdef0"}}.Envelopes(region, time.Now())
	if err != nil {
		return true
	}
	envelopes[0].Account = accountOf(queue)
	event, err := envelopes[0].Body()
	if err != nil {
		return true
	}
	tested, err := client.TestEventPattern(ctx, &eventbridge.TestEventPatternInput{EventPattern: &r.text, Event: &event})
	return err != nil || tested.Result
}

// rulesTo reads the enabled rules that have that target.
func rulesTo(ctx context.Context, client *eventbridge.Client, target string) ([]deployedRule, error) {
	var out []deployedRule
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
			text := aws.ToString(rule.EventPattern)
			if rule.State == ebtypes.RuleStateDisabled || text == "" {
				continue
			}
			r := deployedRule{Rule: Rule{Name: name, ARN: aws.ToString(rule.Arn)}, text: text}
			if err := json.Unmarshal([]byte(text), &r.pattern); err != nil {
				return nil, fmt.Errorf("event pattern of rule %s: %w", name, err)
			}
			out = append(out, r)
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
