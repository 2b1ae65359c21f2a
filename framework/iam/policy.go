// Package iam reads IAM policies, as far as it must be known which calls to SQS they allow, and whether a
// service of AWS may do something to a resource.
package iam

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/cloudformation"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// Policy is a policy of a resource or of an identity.
type Policy struct {
	statements []statement
	unread     []string // policies that belong to it, and are not known
}

// statement is a Statement as IAM documents it:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html
type statement struct {
	name         string // its Sid, or its number
	effect       string
	principal    map[string]words // by kind; "*" for everybody
	notPrincipal map[string]words
	action       words
	notAction    words
	resource     words
	notResource  words
	condition    map[string]any
}

// words are one or more texts.
type words []string

// matches reports whether one of the patterns, which may contain * and ?, matches the text.
func (w words) matches(text string) logic.Truth {
	is := logic.No
	for _, pattern := range w {
		is = max(is, cloudformation.Matches(pattern, text))
	}
	return is
}

// lower is for actions, in which case does not matter.
func (w words) lower() words {
	out := make(words, len(w))
	for i := range w {
		out[i] = strings.ToLower(w[i])
	}
	return out
}

const allow, deny = "Allow", "Deny"

// Join is the policy with the statements of all.
func Join(all ...Policy) (p Policy) {
	for _, other := range all {
		p.statements, p.unread = append(p.statements, other.statements...), append(p.unread, other.unread...)
	}
	return p
}

// document reads a policy document. Strictly, an element that IAM does not have is an error.
func document(doc any, strictly bool) (Policy, error) {
	if text, ok := doc.(string); ok {
		var err error
		if doc, err = cloudformation.DecodeValue(text); err != nil {
			return Policy{}, fmt.Errorf("it is no policy: %w", err)
		}
	}
	elements, ok := doc.(map[string]any)
	if !ok {
		return Policy{}, errors.New("it is no policy: it is not a mapping")
	}
	var errs []error
	if strictly {
		errs = append(errs, unknown(elements, "Version", "Id", "Statement")...)
	}
	list := cloudformation.List(elements["Statement"])
	if len(list) == 0 {
		return Policy{}, errors.Join(append(errs, errors.New("it has no Statement"))...)
	}
	var p Policy
	for i, of := range list {
		s, err := readStatement(of, i+1, strictly)
		if err != nil {
			errs = append(errs, fmt.Errorf("statement %d: %w", i+1, err))
		}
		p.statements = append(p.statements, s)
	}
	return p, errors.Join(errs...)
}

// unknown are errors for the elements that are not allowed.
func unknown(elements map[string]any, allowed ...string) (errs []error) {
	var names []string
	for name := range elements {
		if !slices.Contains(allowed, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		errs = append(errs, fmt.Errorf("IAM has no element %s here; it has: %s", name, strings.Join(allowed, ", ")))
	}
	return errs
}

func readStatement(of any, number int, strictly bool) (statement, error) {
	s := statement{name: fmt.Sprintf("statement %d", number)}
	elements, ok := of.(map[string]any)
	if !ok {
		return s, fmt.Errorf("it is not a mapping: %v", of)
	}
	var errs []error
	if strictly {
		errs = unknown(elements, "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition")
	}
	if sid, _ := cloudformation.Text(elements["Sid"]); sid != "" {
		s.name = "statement " + sid
	}
	s.effect, _ = cloudformation.Text(elements["Effect"])
	if condition := elements["Condition"]; condition != nil {
		if s.condition, ok = condition.(map[string]any); !ok {
			errs = append(errs, errors.New("the Condition is not a mapping of operators"))
		}
	}
	for name, into := range map[string]*words{"Action": &s.action, "NotAction": &s.notAction, "Resource": &s.resource, "NotResource": &s.notResource} {
		var err error
		*into, err = textsOf(name, elements[name])
		errs = append(errs, err)
	}
	for name, into := range map[string]*map[string]words{"Principal": &s.principal, "NotPrincipal": &s.notPrincipal} {
		var err error
		*into, err = principals(name, elements[name])
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

// textsOf reads an element that is a text or a list of texts.
func textsOf(name string, v any) (words, error) {
	var out words
	for _, item := range cloudformation.List(v) {
		text, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("%s is a text or a list of texts, not %v", name, item)
		}
		out = append(out, text)
	}
	return out, nil
}

// principals reads who a statement applies to: "*", or a list for each kind.
func principals(name string, v any) (map[string]words, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return map[string]words{"AWS": {v}}, nil
	case map[string]any:
		out := map[string]words{}
		for kind, of := range v {
			list, err := textsOf(name+"."+kind, of)
			if err != nil {
				return nil, err
			}
			out[kind] = list
		}
		return out, nil
	}
	return nil, fmt.Errorf(`%s is "*" or a mapping of kinds, not %v`, name, v)
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

// ofHandler are the condition keys of a handler's own calls: with the credentials of its role, by TLS.
func ofHandler() map[string]string {
	return map[string]string{"aws:securetransport": "true", "aws:principalisawsservice": "false", "aws:viaawsservice": "false"}
}

// Allowed are the actions of SQS that the policy of a user or role allows, without the prefix sqs. Which
// queue its resources name is not looked at, as that of a drill is another one; but a Deny counts only for what an
// Allow names. Doubts are actions that are not known to be allowed, and count as allowed, with the reasons.
func (p Policy) Allowed() (actions, doubts []string) {
	for _, action := range Actions() {
		is, why := p.may("sqs:" + action)
		if is != logic.No {
			actions = append(actions, action)
		}
		if is == logic.Maybe {
			doubts = append(doubts, action+": "+why)
		}
	}
	if len(p.unread) > 0 {
		doubts = append(doubts, "not read, and may allow or deny more: "+strings.Join(p.unread, ", "))
	}
	return actions, doubts
}

// may reports whether a queue that the policy names may be used for an action, and why that is not known.
func (p Policy) may(action string) (is logic.Truth, why string) {
	for _, s := range p.statements {
		met, text := s.conditions(ofHandler())
		if met = min(met, s.about(action)); s.effect != allow || met == logic.No {
			continue
		}
		for _, queue := range s.queues() {
			of, reason := met, s.name+" may allow it: "+text
			for _, d := range p.statements {
				denied, text := d.conditions(ofHandler())
				denied = min(denied, d.about(action), d.coversAll(queue))
				if d.effect == deny && denied.Not() < of {
					of, reason = denied.Not(), d.name+" may deny it: "+cmp.Or(text, "it is about some of "+cloudformation.Printable(queue))
				}
			}
			if of > is {
				is, why = of, reason
			}
		}
	}
	return is, why
}

// coversAll reports whether the statement is about all that a pattern of a resource matches.
func (s statement) coversAll(queue string) logic.Truth {
	is := logic.No
	for _, pattern := range slices.Concat(s.resource, s.notResource) {
		is = max(is, cloudformation.Covers(pattern, queue))
	}
	if len(s.notResource) > 0 {
		return is.Not()
	}
	return is
}

// Keys are the actions of KMS that the policy of a user or role names in an Allow, such as "kms:Decrypt".
func (p Policy) Keys() []string {
	var names []string
	for _, s := range p.statements {
		for _, action := range s.action {
			if s.effect == allow && strings.HasPrefix(strings.ToLower(action), "kms:") {
				names = append(names, action)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// about reports whether the statement is about an action.
func (s statement) about(action string) logic.Truth {
	action = strings.ToLower(action)
	if len(s.notAction) > 0 {
		return s.notAction.lower().matches(action).Not()
	}
	return s.action.lower().matches(action)
}

// queues are the statement's resources that may be queues.
func (s statement) queues() words {
	if len(s.notResource) > 0 {
		if slices.Contains(s.notResource, "*") {
			return nil
		}
		return words{"*"}
	}
	return slices.DeleteFunc(slices.Clone(s.resource), func(arn string) bool {
		part := strings.SplitN(arn, ":", 4)
		if len(part) < 4 {
			return arn != "*" && len(cloudformation.Symbols(arn)) == 0
		}
		return cloudformation.Matches(part[2], "sqs") == logic.No
	})
}
