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
