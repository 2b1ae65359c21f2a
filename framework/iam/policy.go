// Package iam reads IAM policies, as far as it must be known which calls to SQS they allow. Conditions
// are not evaluated: an Allow with one allows, and a Deny with one denies nothing.
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

// Policy is a policy of a resource or of an identity.
type Policy struct{ statements []statement }

// statement is a Statement as IAM documents it:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html
type statement struct {
	Sid         string
	Effect      string
	Principal   *principal
	Action      words
	NotAction   words
	Resource    words
	NotResource words
	Condition   json.RawMessage
}

// principal is who a statement applies to: "*", or a list for each kind.
type principal struct {
	Service words
	AWS     words
}

// UnmarshalJSON reads either.
func (p *principal) UnmarshalJSON(text []byte) error {
	var anyone string
	if json.Unmarshal(text, &anyone) == nil {
		p.Service = words{anyone}
		return nil
	}
	type byKind principal
	return json.Unmarshal(text, (*byKind)(p))
}

// words is a string or a list of strings.
type words []string

// UnmarshalJSON reads either.
func (w *words) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// matches reports whether one of the patterns, which may contain * and ?, matches the word. Case does
// not matter.
func (w words) matches(word string) bool {
	return slices.ContainsFunc(w, func(pattern string) bool {
		// path.Match stops at slashes, which neither actions nor the ARNs of queues have.
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(word))
		return ok && err == nil
	})
}

// parse reads a policy. Strictly, an element that IAM does not have is an error.
func parse(data []byte, strictly bool) (Policy, error) {
	var document struct {
		Version   string
		ID        string `json:"Id"`
		Statement json.RawMessage
	}
	if err := decode(data, &document, strictly); err != nil {
		return Policy{}, err
	}
	var p Policy
	switch text := bytes.TrimSpace(document.Statement); {
	case len(text) == 0 || bytes.Equal(text, []byte("[]")) || bytes.Equal(text, []byte("null")):
		return p, errors.New("it has no Statement")
	case text[0] == '[':
		return p, decode(text, &p.statements, strictly)
	default:
		p.statements = make([]statement, 1)
		return p, decode(text, &p.statements[0], strictly)
	}
}

func decode(data []byte, into any, strictly bool) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if strictly {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is no policy: %w", err)
	}
	if d.More() {
		return errors.New("it is no policy: more follows")
	}
	return nil
}

// decide looks at the statements that are about something. A Deny overrides every Allow.
func (p Policy) decide(about func(statement) bool) (allowed, denied bool) {
	for _, s := range p.statements {
		switch {
		case !about(s):
		case s.Effect == deny && len(s.Condition) == 0:
			denied = true
		case s.Effect == allow:
			allowed = true
		}
	}
	return allowed, denied
}

const allow, deny = "Allow", "Deny"

// ParseResource reads the policy of a resource. What it does not know of it is ignored.
func ParseResource(data []byte) (Policy, error) { return parse(data, false) }

// Lets reports whether the policy of a resource allows, and whether it denies, an action of a service of
// AWS on the resource with that ARN.
func (p Policy) Lets(service, action, arn string) (allowed, denied bool) {
	return p.decide(func(s statement) bool {
		return s.Principal != nil && (s.Principal.Service.matches(service) || s.Principal.AWS.matches(service)) &&
			s.Action.matches(action) && s.Resource.matches(arn)
	})
}

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
