package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestRetentionIsThatOfTheStack(t *testing.T) {
	if want := fmt.Sprintf("MessageRetentionPeriod: %d", int(retention.Seconds())); !strings.Contains(stackTemplate, want) {
		t.Errorf("stack.yaml does not have %q", want)
	}
}

func TestTheQueueIsOnlyChangedByWhoeverDeployedIt(t *testing.T) {
	a := Connect("http://127.0.0.1:1", testRegion)
	if _, err := a.DeleteQueue(t.Context()); err == nil {
		t.Error("a queue was deleted")
	}
	if _, err := a.KeepMessages(t.Context(), history.ShortestRetention); err == nil {
		t.Error("a retention was set")
	}
	if _, err := a.ReadOne(t.Context(), 0); err == nil {
		t.Error("a message was read")
	}
}

func TestWhyRefused(t *testing.T) {
	const arn = "arn:aws:sqs:ap-northeast-2:000000000000:spotdrill"
	allow := func(principal, action, resource string) string {
		return `{"Effect":"Allow","Principal":` + principal + `,"Action":` + action + `,"Resource":` + resource + `}`
	}
	policy := func(statements ...string) string {
		return `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
	}
	const service, send, this = `{"Service":"events.amazonaws.com"}`, `"sqs:SendMessage"`, `"` + arn + `"`
	for name, c := range map[string]struct{ policy, want string }{
		"allowed":                   {policy: policy(allow(service, send, this))},
		"among others":              {policy: policy(allow(`{"Service":["sqs.amazonaws.com","events.amazonaws.com"]}`, `["sqs:GetQueueUrl","SQS:SendMessage"]`, `["`+arn+`"]`))},
		"by patterns":               {policy: policy(allow(`"*"`, `"sqs:*"`, `"arn:aws:sqs:*:*:spot?rill"`))},
		"everybody, as AWS":         {policy: policy(allow(`{"AWS":"*"}`, send, `"*"`))},
		"one statement, no list":    {policy: `{"Statement":` + allow(service, send, this) + `}`},
		"denied where not secure":   {policy: policy(allow(service, send, this), `{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}`)},
		"denied":                    {policy: policy(allow(service, send, this), `{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*"}`), want: "denies"},
		"no policy":                 {want: "has no policy"},
		"another service":           {policy: policy(allow(`{"Service":"sns.amazonaws.com"}`, send, this)), want: "no statement"},
		"another action":            {policy: policy(allow(service, `"sqs:ReceiveMessage"`, this)), want: "no statement"},
		"another queue":             {policy: policy(allow(service, send, `"arn:aws:sqs:ap-northeast-2:000000000000:other"`)), want: "no statement"},
		"no statement":              {policy: `{}`, want: "cannot be read"},
		"no JSON":                   {policy: `Statement: []`, want: "cannot be read"},
		"a statement of wrong type": {policy: `{"Statement":[3]}`, want: "cannot be read"},
	} {
		got := whyRefused(c.policy, arn)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
