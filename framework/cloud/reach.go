package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/transport/http"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
)

// Reach is what reaches a queue of the notices that AWS puts on the default event bus.
type Reach struct {
	// ARN is the queue's; empty if there is no such queue.
	ARN string
	// Unheard are the types of notices that no enabled rule sends to the queue.
	Unheard []history.NoticeType
	// Silent are the rules with the queue as a target by which nothing gets there, with the reasons.
	Silent []string
	// Policy is whether the queue's policy lets EventBridge send to it, and Encryption whether its key does.
	Policy, Encryption iam.Decision
}

// NoticesThatReach looks up the queue with that name, its policy and encryption, and the rules of the
// default event bus that have it as a target. It changes nothing. It needs the rights to
// sqs:GetQueueUrl, sqs:GetQueueAttributes, events:ListRuleNamesByTarget,
// events:DescribeRule and events:ListTargetsByRule; with events:TestEventPattern, AWS itself judges the
// patterns, and with kms:DescribeKey and kms:GetKeyPolicy, the key of an encrypted queue is known.
func NoticesThatReach(ctx context.Context, cfg aws.Config, queue string) (Reach, error) {
	client := sqs.NewFromConfig(cfg)
	url, err := findQueue(ctx, client, queue)
	if url == "" || err != nil {
		return Reach{}, err
	}
	const document, arn, key = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn, sqstypes.QueueAttributeNameKmsMasterKeyId
	// SQS refuses to be asked by name for attributes that only FIFO queues have.
	attributes, err := attributesOf(ctx, client, url, sqstypes.QueueAttributeNameAll)
	if err != nil {
		return Reach{}, fmt.Errorf("read the attributes of queue %s: %w", queue, err)
	}
	q := Queue{
		ARN: attributes[string(arn)], Key: attributes[string(key)],
		FIFO:         attributes[string(sqstypes.QueueAttributeNameFifoQueue)] == "true",
		Deduplicates: attributes[string(sqstypes.QueueAttributeNameContentBasedDeduplication)] == "true",
	}
	if err := q.readKey(ctx, kms.NewFromConfig(cfg)); err != nil {
		return Reach{}, err
	}
	if text := attributes[string(document)]; text != "" {
		policy, err := iam.ParseResource([]byte(text))
		if err != nil {
			q.PolicyUnread = "the queue's policy cannot be read: " + err.Error()
		}
		q.Policy = &policy
	}
	events := eventbridge.NewFromConfig(cfg)
	found, err := rulesTo(ctx, events, q)
	if err != nil {
		return Reach{}, fmt.Errorf("read the EventBridge rules to queue %s: %w", queue, err)
	}
	rules := make([]Rule, len(found))
	for i := range found {
		rules[i] = found[i].Rule
	}
	r := Reach{ARN: q.ARN, Policy: q.Lets(rules), Encryption: q.Encrypts(rules)}
	for _, rule := range rules {
		if rule.Silent != "" {
			r.Silent = append(r.Silent, "rule "+rule.Name+": "+rule.Silent)
		}
	}
	for _, t := range history.NoticeTypes() {
		heard := false
		for _, rule := range found {
			heard = heard || rule.Silent == "" && rule.hears(ctx, events, cfg.Region, q.ARN, t)
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

// rulesTo reads the rules that have the queue as a target.
func rulesTo(ctx context.Context, client *eventbridge.Client, q Queue) ([]deployedRule, error) {
	var out []deployedRule
	for next := (*string)(nil); ; {
		names, err := client.ListRuleNamesByTarget(ctx, &eventbridge.ListRuleNamesByTargetInput{TargetArn: &q.ARN, NextToken: next})
		if err != nil {
			return nil, err
		}
		for _, name := range names.RuleNames {
			r, err := readRule(ctx, client, name, q)
			if err != nil {
				return nil, fmt.Errorf("rule %s: %w", name, err)
			}
			out = append(out, r)
		}
		if next = names.NextToken; next == nil {
			return out, nil
		}
	}
}

func readRule(ctx context.Context, client *eventbridge.Client, name string, q Queue) (deployedRule, error) {
	rule, err := client.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: &name})
	if err != nil {
		return deployedRule{}, err
	}
	r := deployedRule{Rule: Rule{Name: name, ARN: aws.ToString(rule.Arn)}, text: aws.ToString(rule.EventPattern)}
	switch {
	case rule.State == ebtypes.RuleStateDisabled:
		r.Silent = "it is DISABLED"
		return r, nil
	case r.text == "":
		r.Silent = "it has no EventPattern"
		return r, nil
	}
	if err := json.Unmarshal([]byte(r.text), &r.pattern); err != nil {
		return r, fmt.Errorf("its event pattern: %w", err)
	}
	for next := (*string)(nil); ; {
		targets, err := client.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: &name, NextToken: next})
		if err != nil {
			return r, err
		}
		for _, target := range targets.Targets {
			if aws.ToString(target.Arn) != q.ARN {
				continue
			}
			group := ""
			if target.SqsParameters != nil {
				group = aws.ToString(target.SqsParameters.MessageGroupId)
			}
			r.Role, r.Silent = target.RoleArn != nil, cmp.Or(q.refuses(group), altered(target))
		}
		if next = targets.NextToken; next == nil {
			return r, nil
		}
	}
}

// altered is why what a target gets is no notice; empty if it gets the event as it is.
func altered(target ebtypes.Target) string {
	const why = "its target has %s: what arrives is not the notice that handlers read"
	switch path := aws.ToString(target.InputPath); {
	case target.Input != nil:
		return fmt.Sprintf(why, "an Input")
	case target.InputTransformer != nil:
		return fmt.Sprintf(why, "an InputTransformer")
	case path != "" && path != "$":
		return fmt.Sprintf(why, "the InputPath "+path)
	}
	return ""
}

// readKey reads the policy and the state of the queue's key. If that is not permitted, the policy is not known.
// The error is that AWS does not answer.
func (q *Queue) readKey(ctx context.Context, client *kms.Client) error {
	if q.Key == "" || q.keyOfAWS() {
		return nil
	}
	described, err := client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &q.Key})
	if err != nil {
		return q.keyUnread(err)
	}
	if described.KeyMetadata.KeyManager == kmstypes.KeyManagerTypeAws {
		q.Key = keyOfSQS
		return nil
	}
	q.Key = aws.ToString(described.KeyMetadata.Arn)
	q.KeyDisabled = described.KeyMetadata.KeyState != kmstypes.KeyStateEnabled
	answer, err := client.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: &q.Key})
	if err != nil {
		return q.keyUnread(err)
	}
	policy, err := iam.ParseResource([]byte(aws.ToString(answer.Policy)))
	if err != nil {
		return q.keyUnread(err)
	}
	q.KeyPolicy = &policy
	return nil
}

// keyUnread notes why the policy of the key is not known; an answer of AWS is no error.
func (q *Queue) keyUnread(err error) error {
	var unsent *http.RequestSendError
	if errors.As(err, &unsent) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("read the queue's key %s: %w", q.Key, err)
	}
	q.KeyUnread = " (" + err.Error() + ")"
	return nil
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
