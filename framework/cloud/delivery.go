package cloud

import (
	"fmt"
	"strings"

	cfn "github.com/spotdrill/spotdrill/framework/cloudformation"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// eventBridge is the principal that delivers what rules match.
const eventBridge = "events.amazonaws.com"

// Queue is what decides in AWS whether EventBridge may send to a queue. An emulator ignores it. Texts may
// have symbols of package cloudformation for what only AWS knows.
type Queue struct {
	ARN    string
	Policy *iam.Policy // nil if it has none
	// PolicyUnread is why its policy is not known; empty if it is.
	PolicyUnread string
	// Unread is why none of its attributes is known; empty if they are.
	Unread string
	// Key is the key of KMS that it is encrypted with, as its KmsMasterKeyId names it; empty for none,
	// or a key of SQS itself.
	Key string
	// KeyPolicy is the policy of that key; nil if it is not known.
	KeyPolicy *iam.Policy
	// KeyUnread is why that is not known; it may be empty.
	KeyUnread string
	// KeyDisabled reports whether the key is known to be disabled.
	KeyDisabled bool
	// FIFO reports whether it is a FIFO queue, and Deduplicates whether by the content of messages.
	FIFO, Deduplicates bool
}

// Rule is a rule of EventBridge that has the queue as a target.
type Rule struct {
	Name, ARN string
	// Silent is why no notice of AWS gets to the queue by it; empty if it does.
	Silent string
	// Role reports whether EventBridge sends with a role of the target's, whose policies are not known.
	Role bool
	// Unread is why its target is not known; empty if it is.
	Unread string
}

// refuses is why a queue takes nothing from a target with that group of messages; empty if it does:
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html
func (q Queue) refuses(messageGroup string) string {
	switch {
	case !q.FIFO:
		return ""
	case messageGroup == "":
		return "the queue is a FIFO queue, and its target has no SqsParameters.MessageGroupId"
	case !q.Deduplicates:
		return "the queue is a FIFO queue without ContentBasedDeduplication, which EventBridge requires"
	}
	return ""
}

// Account is the account of an ARN.
func accountOf(arn string) string {
	const account = 4
	if parts := strings.Split(arn, ":"); len(parts) > account {
		return parts[account]
	}
	return cfn.Symbol(cfn.Account)
}

// sends is the request by which EventBridge sends what a rule matches, or uses the queue's key for it:
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html
func (r Rule) sends(action, resource string) iam.Request {
	return iam.Request{Service: eventBridge, Action: action, Resource: resource, Context: map[string]string{
		"aws:sourcearn": r.ARN, "aws:sourceaccount": accountOf(r.ARN), "aws:securetransport": "true",
		"aws:principalisawsservice": "true", "aws:principalservicename": eventBridge,
	}}
}

// Lets reports whether the queue's policy lets EventBridge send what the rules match. One rule that it does
// not let through is enough to refuse; rules that are silent do not count.
func (q Queue) Lets(rules []Rule) iam.Decision {
	switch {
	case q.Unread != "":
		return iam.Decision{Is: logic.Maybe, Why: "the queue's policy is not known: " + q.Unread}
	case q.PolicyUnread != "":
		return iam.Decision{Is: logic.Maybe, Why: q.PolicyUnread}
	case q.Policy == nil:
		return iam.Decision{Is: logic.No, Why: "the queue has no policy, and without one " + eventBridge + " may not send to it"}
	}
	return worst(rules, func(r Rule) iam.Decision {
		d := q.Policy.Decide(r.sends("sqs:SendMessage", q.ARN))
		if r.Unread != "" && d.Is != logic.Yes {
			return iam.Decision{Is: logic.Maybe, Why: "whether its target has a role is not known: " + r.Unread}
		}
		if r.Role && d.Is != logic.Yes {
			return iam.Decision{Is: logic.Maybe, Why: "its target has a role, whose policies are not read"}
		}
		d.Why = "in the queue's policy, " + d.Why
		return d
	})
}

// keyOfSQS is the key that AWS manages for SQS.
const keyOfSQS = "alias/aws/sqs"

func (q Queue) keyOfAWS() bool { return q.Key == keyOfSQS || strings.HasSuffix(q.Key, ":"+keyOfSQS) }

// Encrypts reports whether the encryption of the queue lets EventBridge send to it:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html#compatibility-with-aws-services
func (q Queue) Encrypts(rules []Rule) iam.Decision {
	switch {
	case q.Unread != "":
		return iam.Decision{Is: logic.Maybe, Why: "the queue's encryption is not known: " + q.Unread}
	case q.Key == "":
		return iam.Decision{Is: logic.Yes, Why: "no key of KMS"}
	case q.keyOfAWS():
		return iam.Decision{Is: logic.No, Why: "the queue is encrypted with alias/aws/sqs: EventBridge cannot use this key, and its policy cannot be changed"}
	case q.KeyDisabled:
		return iam.Decision{Is: logic.No, Why: "the queue's key is disabled"}
	case q.KeyPolicy == nil:
		return iam.Decision{Is: logic.Maybe, Why: fmt.Sprintf("the policy of the queue's key %s is not known%s: it must allow kms:GenerateDataKey* and kms:Decrypt to %s", cfn.Printable(q.Key), q.KeyUnread, eventBridge)}
	}
	return worst(rules, func(r Rule) iam.Decision {
		for _, action := range []string{"kms:GenerateDataKey", "kms:Decrypt"} {
			if d := q.KeyPolicy.Decide(r.sends(action, q.Key)); d.Is != logic.Yes {
				d.Why = "in the policy of the queue's key, " + d.Why
				return d
			}
		}
		return iam.Decision{Is: logic.Yes, Why: "the policy of the queue's key allows kms:GenerateDataKey and kms:Decrypt to " + eventBridge}
	})
}

// worst is the decision about the rule that is let through least.
func worst(rules []Rule, decide func(Rule) iam.Decision) iam.Decision {
	var of []Rule
	for _, r := range rules {
		if r.Silent == "" {
			of = append(of, r)
		}
	}
	if len(of) == 0 { // the policy is judged for any rule
		return decide(Rule{ARN: cfn.Symbol("ARN of a rule")})
	}
	found := decide(of[0])
	for i, r := range of {
		d := found
		if i > 0 {
			d = decide(r)
		}
		if d.Is != logic.Yes {
			d.Why = "rule " + r.Name + ": " + d.Why
		}
		if i == 0 || d.Is < found.Is {
			found = d
		}
	}
	return found
}
