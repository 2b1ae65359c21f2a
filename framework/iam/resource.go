package iam

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/cloudformation"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// ParseResource reads the policy of a resource. What it does not know of it is ignored.
func ParseResource(data []byte) (Policy, error) { return ReadResource(string(data)) }

// ReadResource reads the policy of a resource of an evaluated template: a mapping, or a text.
func ReadResource(doc any) (Policy, error) { return document(doc, false) }

// Request is what a service of AWS does to a resource. Its texts may have symbols.
type Request struct {
	Service  string // the principal, such as events.amazonaws.com
	Action   string // such as sqs:SendMessage
	Resource string // its ARN
	// Context are the values of condition keys, by key in lower case. Of others it is not known whether
	// the request has them.
	Context map[string]string
}

// Decision is what a policy decides about a request, and why: a sentence that begins with what decides.
type Decision struct {
	Is  logic.Truth
	Why string
}

// Decide decides about a request. Without a statement that allows it, it is refused; one that denies it
// overrides all that allow it.
func (p Policy) Decide(r Request) Decision {
	allowed := Decision{Is: logic.No, Why: fmt.Sprintf("no statement allows %s on %s to %s", r.Action, cloudformation.Printable(r.Resource), r.Service)}
	mayDeny := ""
	for _, s := range p.statements {
		is, why := s.applies(r)
		switch {
		case s.effect == deny && is == logic.Yes:
			return Decision{logic.No, fmt.Sprintf("%s denies %s to %s", s.name, r.Action, r.Service)}
		case s.effect == deny && is == logic.Maybe:
			mayDeny = s.name + " may deny it: " + why
		case s.effect != allow:
		case is == logic.Yes:
			allowed = Decision{is, fmt.Sprintf("%s allows %s to %s", s.name, r.Action, r.Service)}
		case is == logic.Maybe && allowed.Is == logic.No:
			allowed = Decision{is, s.name + " may allow it: " + why}
		case why != "" && allowed.Is == logic.No:
			allowed.Why += "; " + s.name + " does not: " + why
		}
	}
	if mayDeny != "" && allowed.Is != logic.No {
		return Decision{logic.Maybe, mayDeny}
	}
	return allowed
}

// applies reports whether a statement is about a request. Why is about what is not known, or about the
// condition that is not met.
func (s statement) applies(r Request) (is logic.Truth, why string) {
	is = logic.Yes
	for _, part := range []struct {
		is   logic.Truth
		what string
	}{
		{s.names(r.Service), "its Principal"}, {s.about(r.Action), "its Action"}, {s.covers(r.Resource), "its Resource, " + printable(s.resource)},
	} {
		if part.is == logic.No {
			return part.is, ""
		}
		if part.is == logic.Maybe {
			is, why = part.is, part.what+" is not known"
		}
	}
	met, text := s.conditions(r.Context)
	if met <= is && text != "" {
		is, why = met, text
	}
	return is, why
}

// conditions reports whether the statement's conditions are met. Why is about the one that is not known, or not
// met.
func (s statement) conditions(context map[string]string) (is logic.Truth, why string) {
	is = logic.Yes
	for _, operator := range slices.Sorted(maps.Keys(s.condition)) {
		keys, _ := s.condition[operator].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			met, text := meets(operator, key, keys[key], context)
			if met == logic.No {
				return met, text
			}
			if met == logic.Maybe {
				is, why = met, text
			}
		}
		if keys == nil {
			is, why = logic.Maybe, "its condition "+operator+" is not known"
		}
	}
	return is, why
}

// names reports whether a service is a principal of the statement.
func (s statement) names(service string) logic.Truth {
	listed := func(of map[string]words) logic.Truth {
		is := logic.No
		for kind, list := range of {
			for _, name := range list {
				switch {
				case kind == "AWS" && name == "*":
					is = logic.Yes
				case kind == "Service": // a role or an account is none
					is = max(is, cloudformation.Equal(strings.ToLower(name), service))
				}
			}
		}
		return is
	}
	switch {
	case s.notPrincipal == nil:
		return listed(s.principal)
	case listed(s.notPrincipal) == logic.No:
		return logic.Maybe // AWS advises against NotPrincipal
	}
	return listed(s.notPrincipal).Not()
}

// covers reports whether a resource is one of the statement's.
func (s statement) covers(resource string) logic.Truth {
	if len(s.notResource) > 0 {
		return s.notResource.matches(resource).Not()
	}
	return s.resource.matches(resource)
}

// meets reports whether a request fulfils a condition:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
func meets(operator, key string, wanted any, context map[string]string) (is logic.Truth, why string) {
	base, _ := strings.CutPrefix(operator, "ForAllValues:")
	base, _ = strings.CutPrefix(base, "ForAnyValue:")
	base, _ = strings.CutSuffix(base, "IfExists")
	values, err := textsOrScalars(wanted)
	text := fmt.Sprintf("its condition %s %s %s", key, operator, printable(values))
	has, known := context[strings.ToLower(key)]
	if !known || err != nil {
		return logic.Maybe, text + " cannot be evaluated"
	}
	text += ", and it is " + cloudformation.Printable(has)
	compare := comparison(base)
	if base == "Null" {
		compare = func(wanted, _ string) logic.Truth {
			return cloudformation.Equal(strings.ToLower(wanted), "false")
		}
	}
	if compare == nil {
		return logic.Maybe, text + ", but this operator is not evaluated"
	}
	is = logic.No
	for _, v := range values {
		if strings.Contains(v, "${") { // a variable of the policy
			is = max(is, logic.Maybe)
			continue
		}
		is = max(is, compare(v, has))
	}
	if strings.Contains(base, "Not") {
		is = is.Not()
	}
	return is, text
}

// comparison is how an operator compares a value of the policy with one of the request, without regard to
// a Not in it; nil if it is not known.
func comparison(operator string) func(wanted, has string) logic.Truth {
	switch strings.Replace(operator, "Not", "", 1) {
	case "StringEquals":
		return cloudformation.Equal
	case "StringEqualsIgnoreCase", "Bool":
		return func(wanted, has string) logic.Truth {
			return cloudformation.Equal(strings.ToLower(wanted), strings.ToLower(has))
		}
	case "StringLike":
		return cloudformation.Matches
	case "ArnEquals", "ArnLike":
		return matchesARN
	}
	return nil
}

// matchesARN compares the six parts of an ARN: unlike in texts, * and ? do not go beyond a colon.
func matchesARN(pattern, arn string) logic.Truth {
	const parts = 6
	patterns, texts := strings.SplitN(pattern, ":", parts), strings.SplitN(arn, ":", parts)
	switch {
	case pattern == "*":
		return logic.Yes
	case len(texts) < parts || len(patterns) < parts && len(cloudformation.Symbols(pattern)) > 0:
		return cloudformation.Matches(pattern, arn)
	case len(patterns) < parts:
		return logic.No
	}
	is := logic.Yes
	for i := range patterns {
		is = min(is, cloudformation.Matches(patterns[i], texts[i]))
	}
	return is
}

// textsOrScalars reads the values of a condition: booleans and numbers are texts as well.
func textsOrScalars(v any) (words, error) {
	var out words
	for _, item := range cloudformation.List(v) {
		text, ok := cloudformation.Text(item)
		if !ok {
			return nil, fmt.Errorf("%v is no text", item)
		}
		out = append(out, text)
	}
	return out, nil
}

func printable(list words) string { return cloudformation.Printable(strings.Join(list, ", ")) }
