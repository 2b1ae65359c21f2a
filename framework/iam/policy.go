// Package iam reads IAM policies, as far as it must be known which calls to SQS they allow.
package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Policy is an identity-based policy.
type Policy struct{ statements []statement }

// statement is a Statement as IAM documents it:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html
type statement struct {
	Sid         string
	Effect      string
	Action      texts
	NotAction   texts
	Resource    texts
	NotResource texts
	Condition   json.RawMessage
}

// texts is a text or a list of texts.
type texts []string

// UnmarshalJSON reads either.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// statements is a statement or a list of statements.
type statements []statement

// UnmarshalJSON reads either.
func (s *statements) UnmarshalJSON(data []byte) error {
	if strict(data, (*[]statement)(s)) == nil {
		return nil
	}
	var one statement
	if err := strict(data, &one); err != nil {
		return strict(data, (*[]statement)(s))
	}
	*s = statements{one}
	return nil
}

func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Parse reads a policy in JSON. An element that IAM does not have, or a statement that lacks one, is an
// error.
func Parse(data []byte) (Policy, error) {
	var document struct {
		Version   string
		ID        string `json:"Id"`
		Statement statements
	}
	if !json.Valid(data) {
		return Policy{}, errors.New("it is not JSON")
	}
	if err := strict(data, &document); err != nil {
		return Policy{}, fmt.Errorf("read the policy: %w", err)
	}
	var errs []error
	if len(document.Statement) == 0 {
		errs = append(errs, errors.New("it has no Statement"))
	}
	for i, s := range document.Statement {
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("statement %d: "+format, append([]any{i + 1}, args...)...))
		}
		if s.Effect != allow && s.Effect != deny {
			wrong("Effect %q is neither Allow nor Deny", s.Effect)
		}
		if (len(s.Action) == 0) == (len(s.NotAction) == 0) {
			wrong("requires exactly one of: Action, NotAction")
		}
		if (len(s.Resource) == 0) == (len(s.NotResource) == 0) {
			wrong("requires exactly one of: Resource, NotResource")
		}
	}
	return Policy{document.Statement}, errors.Join(errs...)
}

const allow, deny = "Allow", "Deny"

// Actions are the actions of SQS that policies can name:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html
func Actions() []string {
	return []string{
		"AddPermission", "CancelMessageMoveTask", "ChangeMessageVisibility", "CreateQueue", "DeleteMessage", "DeleteQueue",
		"GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues", "ListMessageMoveTasks", "ListQueueTags", "ListQueues",
		"PurgeQueue", "ReceiveMessage", "RemovePermission", "SendMessage", "SetQueueAttributes", "StartMessageMoveTask", "TagQueue", "UntagQueue",
	}
}

// Allowed are the actions of SQS that the policy allows for a queue, without the prefix sqs. Which queue
// its resources name is not looked at: that of a drill is another one. Conditions are not evaluated:
// an Allow with one allows, and a Deny with one denies nothing.
func (p Policy) Allowed() []string {
	return slices.DeleteFunc(Actions(), func(action string) bool {
		allowed := false
		for _, s := range p.statements {
			switch {
			case !s.ofQueues() || !s.names("sqs:"+action):
			case s.Effect == allow:
				allowed = true
			case len(s.Condition) == 0:
				return true // a Deny overrides every Allow
			}
		}
		return !allowed
	})
}

// names reports whether the statement is about an action. Neither case nor wildcards matter.
func (s statement) names(action string) bool {
	named := func(pattern string) bool { return matches(pattern, action) }
	if len(s.NotAction) > 0 {
		return !slices.ContainsFunc(s.NotAction, named)
	}
	return slices.ContainsFunc(s.Action, named)
}

// ofQueues reports whether the statement's resources may include a queue.
func (s statement) ofQueues() bool {
	if len(s.NotResource) > 0 {
		return !slices.Contains(s.NotResource, "*")
	}
	return slices.ContainsFunc(s.Resource, func(arn string) bool {
		part := strings.SplitN(arn, ":", 4)
		return arn == "*" || len(part) == 4 && matches(part[2], "sqs")
	})
}

// matches reports whether a text fits a pattern, in which * is any text and ? any character.
func matches(pattern, text string) bool {
	// The other signs of path.Match are in no action.
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(text))
	return ok && err == nil
}
