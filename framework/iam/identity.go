package iam

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ParseIdentity reads the policy of a user or a role. An element that IAM does not have, or a statement
// that lacks one, is an error.
func ParseIdentity(data []byte) (Policy, error) {
	p, err := parse(data, true)
	if err != nil {
		return p, err
	}
	var errs []error
	for i, s := range p.statements {
		wrong := func(what string) { errs = append(errs, fmt.Errorf("statement %d: %s", i+1, what)) }
		if s.Effect != allow && s.Effect != deny {
			wrong(fmt.Sprintf("Effect %q is neither Allow nor Deny", s.Effect))
		}
		if s.Principal != nil {
			wrong("the policy of a user or role has no Principal: this one is a resource's")
		}
		if (len(s.Action) == 0) == (len(s.NotAction) == 0) {
			wrong("requires exactly one of: Action, NotAction")
		}
		if (len(s.Resource) == 0) == (len(s.NotResource) == 0) {
			wrong("requires exactly one of: Resource, NotResource")
		}
	}
	return p, errors.Join(errs...)
}

// Actions are the actions of SQS that policies can name:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html
func Actions() []string {
	return []string{
		"AddPermission", "CancelMessageMoveTask", "ChangeMessageVisibility", "CreateQueue", "DeleteMessage", "DeleteQueue",
		"GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues", "ListMessageMoveTasks", "ListQueueTags", "ListQueues",
		"PurgeQueue", "ReceiveMessage", "RemovePermission", "SendMessage", "SetQueueAttributes", "StartMessageMoveTask", "TagQueue", "UntagQueue",
	}
}

// Allowed are the actions of SQS that the policy of a user or role allows, without the prefix sqs. Which
// queue its resources name is not looked at: that of a drill is another one.
func (p Policy) Allowed() []string {
	return slices.DeleteFunc(Actions(), func(action string) bool {
		allowed, denied := p.decide(func(s statement) bool { return s.ofQueues() && s.names("sqs:"+action) })
		return !allowed || denied
	})
}

// names reports whether the statement is about an action.
func (s statement) names(action string) bool {
	if len(s.NotAction) > 0 {
		return !s.NotAction.matches(action)
	}
	return s.Action.matches(action)
}

// ofQueues reports whether the statement's resources may include a queue.
func (s statement) ofQueues() bool {
	if len(s.NotResource) > 0 {
		return !slices.Contains(s.NotResource, "*")
	}
	return slices.ContainsFunc(s.Resource, func(arn string) bool {
		part := strings.SplitN(arn, ":", 4)
		return arn == "*" || len(part) == 4 && words{part[2]}.matches("sqs")
	})
}
