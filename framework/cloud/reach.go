package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http"

	cfn "github.com/spotdrill/spotdrill/framework/cloudformation"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// Reach is what reaches a queue of the notices that AWS puts on the default event bus.
type Reach struct {
	// ARN is the queue's; empty if there is no such queue.
	ARN string
	// Unread is why it is not known whether there is such a queue; empty if it is.
	Unread string
	// Unheard are the types of notices that no enabled rule sends to the queue.
	Unheard []history.NoticeType
	// Unclear are those of which it is not known, and Doubts the reasons.
	Unclear []history.NoticeType
	Doubts  []string
	// Silent are the rules with the queue as a target by which nothing gets there, with the reasons.
	Silent []string
	// Policy is whether the queue's policy lets EventBridge send to it, and Encryption whether its key does.
	Policy, Encryption iam.Decision
}

// NoticesThatReach looks up the queue with that name, its policy and encryption, and the rules of the
// default event bus that have it as a target. It changes nothing. It reads with sqs:GetQueueUrl,
// sqs:GetQueueAttributes, events:ListRuleNamesByTarget, events:DescribeRule, events:ListTargetsByRule,
// events:TestEventPattern, by which AWS itself judges the patterns, and for an encrypted queue kms:DescribeKey
// and kms:GetKeyPolicy. What one of them would show is not known without its permission; the rest is.
func NoticesThatReach(ctx context.Context, cfg aws.Config, queue string) (Reach, error) {
	client := sqs.NewFromConfig(cfg)
	url, err := findQueue(ctx, client, queue)
	if why := notPermitted(err); why != "" {
		return Reach{Unread: why}, nil
	}
	if url == "" || err != nil {
		return Reach{}, err
	}
	const document, arn, key = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn, sqstypes.QueueAttributeNameKmsMasterKeyId
	// SQS refuses to be asked by name for attributes that only FIFO queues have.
	attributes, err := attributesOf(ctx, client, url, sqstypes.QueueAttributeNameAll)
	unread := notPermitted(err)
	if err != nil && unread == "" {
		return Reach{}, fmt.Errorf("read the attributes of queue %s: %w", queue, err)
	}
	q := Queue{
		ARN: attributes[string(arn)], Key: attributes[string(key)],
		FIFO:         attributes[string(sqstypes.QueueAttributeNameFifoQueue)] == "true",
		Deduplicates: attributes[string(sqstypes.QueueAttributeNameContentBasedDeduplication)] == "true",
	}
	if unread != "" {
		q = Queue{ARN: arnOf(url, cfg.Region), Unread: unread, FIFO: strings.HasSuffix(queue, ".fifo")}
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
	unlisted := notPermitted(err)
	if err != nil && unlisted == "" {
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
		heard := logic.No
		if unlisted != "" {
			heard, r.Doubts = logic.Maybe, append(r.Doubts, unlisted)
		}
		for _, rule := range found {
			if rule.Silent != "" {
				continue
			}
			hears, why := rule.hears(ctx, events, cfg.Region, q.ARN, t)
			heard = max(heard, hears)
			if hears == logic.Maybe {
				r.Doubts = append(r.Doubts, "rule "+rule.Name+": "+why)
			}
		}
		switch heard {
		case logic.No:
			r.Unheard = append(r.Unheard, t)
		case logic.Maybe:
			r.Unclear = append(r.Unclear, t)
		}
	}
	slices.Sort(r.Doubts)
	r.Doubts = slices.Compact(r.Doubts)
	return r, nil
}

// notPermitted names the permission that a read lacks; empty for any other error, and for none.
func notPermitted(err error) string {
	var refused smithy.APIError
	var read *smithy.OperationError
	if !errors.As(err, &refused) || !errors.As(err, &read) || !slices.ContainsFunc([]string{"AccessDenied", "Unauthorized", "NotAuthorized", "AuthorizationError"},
		func(code string) bool { return strings.Contains(refused.ErrorCode(), code) }) {
		return ""
	}
	prefix := map[string]string{sqs.ServiceID: "sqs", eventbridge.ServiceID: "events", kms.ServiceID: "kms"}[read.Service()]
	return fmt.Sprintf("%s:%s is not permitted to your AWS credentials", prefix, read.Operation())
}

// arnOf is the ARN of the queue at a URL such as https://sqs.eu-west-1.amazonaws.com/111122223333/NAME.
func arnOf(queueURL, region string) string {
	partition := "aws"
	switch {
	case strings.HasPrefix(region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		partition = "aws-us-gov"
	}
	rest, name := path.Split(queueURL)
	return fmt.Sprintf("arn:%s:sqs:%s:%s:%s", partition, region, path.Base(rest), name)
}

// deployedRule is an enabled rule in AWS.
type deployedRule struct {
	Rule
	text    string // its event pattern
	pattern eventPattern
	doubt   string // why it is not known whether what it matches gets to the queue; empty if it does
}

// hears decides whether a notice of that type gets to the queue by the rule, as AWS judges its pattern. why is why
// that is not known.
func (r deployedRule) hears(ctx context.Context, client *eventbridge.Client, region, queue string, t history.NoticeType) (is logic.Truth, why string) {
	source, detailType := pattern(t)
	matches := r.pattern.matches(source, detailType)
	switch {
	case matches == logic.No:
		return logic.No, ""
	case r.doubt != "":
		return logic.Maybe, r.doubt
	}
	envelopes, err := Notice{Type: t, Instances: []string{"i-0123456789abcdef0"}}.Envelopes(region, time.Now())
	if err != nil {
		return logic.Maybe, err.Error()
	}
	envelopes[0].Account = accountOf(queue)
	event, err := envelopes[0].Body()
	if err != nil {
		return logic.Maybe, err.Error()
	}
	tested, err := client.TestEventPattern(ctx, &eventbridge.TestEventPatternInput{EventPattern: &r.text, Event: &event})
	switch {
	case err != nil && matches == logic.Yes:
		return logic.Yes, ""
	case err != nil:
		return logic.Maybe, "its event pattern is not evaluated: " + cmp.Or(notPermitted(err), err.Error())
	case tested.Result:
		return logic.Yes, ""
	}
	return logic.No, ""
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
	if why := notPermitted(err); why != "" {
		return deployedRule{Rule: Rule{Name: name, ARN: cfn.Symbol("ARN of rule " + name)}, doubt: why}, nil
	}
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
		r.pattern, r.doubt = eventPattern{}, "its event pattern cannot be read: "+err.Error()
		return r, nil //nolint:nilerr // the doubt has it
	}
	for next := (*string)(nil); ; {
		targets, err := client.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: &name, NextToken: next})
		if why := notPermitted(err); why != "" {
			r.Unread, r.doubt = why, why
			return r, nil
		}
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
			if q.FIFO && q.Unread != "" && group != "" {
				r.Silent, r.doubt = altered(target), q.Unread
			}
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
	q.KeyUnread = " (" + cmp.Or(notPermitted(err), err.Error()) + ")"
	return nil
}

// eventPattern is the part of an event pattern that decides about a type of notice.
type eventPattern struct {
	Source     []json.RawMessage `json:"source"`
	DetailType []json.RawMessage `json:"detail-type"`
	more       bool              // it has other fields, too
}

// UnmarshalJSON reads a pattern.
func (p *eventPattern) UnmarshalJSON(text []byte) error {
	type plain eventPattern // without this method
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, (*plain)(p)), json.Unmarshal(text, &all)); err != nil {
		return err
	}
	delete(all, "source")
	delete(all, "detail-type")
	p.more = len(all) > 0
	return nil
}

// matches decides whether the pattern matches. An element that is no plain text, such as a prefix, may match, and so
// may fields other than these two.
func (p eventPattern) matches(source, detailType string) logic.Truth {
	one := func(elements []json.RawMessage, value string) logic.Truth {
		is := logic.No
		if len(elements) == 0 {
			is = logic.Yes
		}
		for _, e := range elements {
			var text string
			switch {
			case json.Unmarshal(e, &text) != nil:
				is = max(is, logic.Maybe)
			case text == value:
				is = logic.Yes
			}
		}
		return is
	}
	is := min(one(p.Source, source), one(p.DetailType, detailType))
	if p.more {
		is = min(is, logic.Maybe)
	}
	return is
}
