package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// eventBridge is the principal that delivers what rules match.
const eventBridge = "events.amazonaws.com"

// RefusesEventBridge returns why the queue's policy does not let EventBridge send to
// the queue, or "" if it does. LocalStack ignores the policy; AWS does not:
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html.
func (a *AWS) RefusesEventBridge(ctx context.Context) (why string, err error) {
	const document, arn = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn
	found, err := a.attributes(ctx, document, arn)
	if err != nil {
		return "", fmt.Errorf("queue policy: %w", err)
	}
	return whyRefused(found[string(document)], found[string(arn)]), nil
}

// words is a string or a list of strings in a policy.
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

// matches reports whether one of the patterns, which may contain * and ?, matches the
// word. Case does not matter.
func (w words) matches(word string) bool {
	return slices.ContainsFunc(w, func(pattern string) bool {
		// path.Match stops at slashes, but the ARN of a queue has none.
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(word))
		return ok && err == nil
	})
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

// statement is a part of a policy. Conditions are not evaluated: a statement that
// allows counts with any conditions, one that denies only without conditions.
type statement struct {
	Effect    string
	Principal principal
	Action    words
	Resource  words
	Condition map[string]any
}

func (s statement) about(queue string) bool {
	return s.Action.matches("sqs:SendMessage") && s.Resource.matches(queue) &&
		(s.Principal.Service.matches(eventBridge) || s.Principal.AWS.matches(eventBridge))
}

// whyRefused returns why the policy does not let EventBridge send to the queue, or "".
func whyRefused(policy, queue string) string {
	if policy == "" {
		return "the queue has no policy, and without one " + eventBridge + " may not send to it"
	}
	statements, err := statementsOf(policy)
	if err != nil {
		return "the queue's policy cannot be read: " + err.Error()
	}
	allowed := false
	for _, s := range statements {
		switch {
		case !s.about(queue):
		case s.Effect == "Deny" && len(s.Condition) == 0:
			return "the queue's policy denies sqs:SendMessage to " + eventBridge
		case s.Effect == "Allow":
			allowed = true
		}
	}
	if !allowed {
		return "no statement of the queue's policy allows sqs:SendMessage on " + queue + " to " + eventBridge
	}
	return ""
}

func statementsOf(policy string) ([]statement, error) {
	var document struct{ Statement json.RawMessage }
	if err := json.Unmarshal([]byte(policy), &document); err != nil {
		return nil, err
	}
	if len(document.Statement) == 0 {
		return nil, errors.New("it has no Statement")
	}
	var one statement
	if err := json.Unmarshal(document.Statement, &one); err == nil {
		return []statement{one}, nil
	}
	var all []statement
	err := json.Unmarshal(document.Statement, &all)
	return all, err
}
