package iam

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

// karpenter has what the policy of Karpenter's documentation has of the queue, and one statement of
// another service.
//
//go:embed testdata/karpenter.json
var karpenter string

func TestAllowed(t *testing.T) {
	statement := func(text string) string { return `{"Statement": [` + text + `]}` }
	const queue = `"Resource": "arn:aws:sqs:*:*:production"`
	all := Actions()
	for name, c := range map[string]struct {
		policy string
		want   []string
	}{
		"of Karpenter's documentation": {karpenter, []string{"DeleteMessage", "GetQueueUrl", "ReceiveMessage"}},
		"one statement, no list":       {`{"Statement": {"Effect": "Allow", "Action": "sqs:ReceiveMessage", ` + queue + `}}`, []string{"ReceiveMessage"}},
		"everything":                   {statement(`{"Effect": "Allow", "Action": "*", "Resource": "*"}`), all},
		"everything of SQS":            {statement(`{"Effect": "Allow", "Action": "SQS:*", ` + queue + `}`), all},
		"by a pattern":                 {statement(`{"Effect": "Allow", "Action": "sqs:GetQueue*", ` + queue + `}`), []string{"GetQueueAttributes", "GetQueueUrl"}},
		"in another case":              {statement(`{"Effect": "Allow", "Action": "sqs:receivemessage", ` + queue + `}`), []string{"ReceiveMessage"}},
		"denied again": {statement(`{"Effect": "Deny", "Action": "sqs:DeleteMessage", "Resource": "*"},
			{"Effect": "Allow", "Action": ["sqs:ReceiveMessage", "sqs:DeleteMessage"], ` + queue + `}`), []string{"ReceiveMessage"}},
		"denied on a condition": {statement(`{"Effect": "Deny", "Action": "sqs:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
			{"Effect": "Allow", "Action": "sqs:ReceiveMessage", ` + queue + `}`), []string{"ReceiveMessage"}},
		"all but some":               {statement(`{"Effect": "Allow", "NotAction": ["sqs:Get*", "sqs:List*", "sqs:*Message*", "sqs:*Queue", "sqs:*Permission", "sqs:SetQueueAttributes"], ` + queue + `}`), nil},
		"of another service's":       {statement(`{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "arn:aws:sns:us-west-2:000000000000:topic"}`), nil},
		"of another partition":       {statement(`{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "arn:aws-cn:sqs:cn-north-1:000000000000:q"}`), []string{"ReceiveMessage"}},
		"of all but one queue":       {statement(`{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "NotResource": "arn:aws:sqs:*:*:other"}`), []string{"ReceiveMessage"}},
		"of nothing":                 {statement(`{"Effect": "Allow", "Action": "sqs:ReceiveMessage", "NotResource": "*"}`), nil},
		"one that SQS does not have": {statement(`{"Effect": "Allow", "Action": "sqs:DeleteMessageBatch", ` + queue + `}`), nil},
	} {
		p, err := ParseIdentity([]byte(c.policy))
		if got := p.Allowed(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestParseIdentityRefuses(t *testing.T) {
	for policy, want := range map[string]string{
		"":                   "it is no policy",
		"{":                  "it is no policy",
		"[]":                 "cannot unmarshal",
		"{}":                 "no Statement",
		`{"Statements": []}`: "unknown field",
		`{"Statement": []}`:  "no Statement",
		`{"Statement": [{"Effect": "allow", "Action": "*", "Resource": "*"}]}`:                                          `statement 1: Effect "allow"`,
		`{"Statement": [{"Effect": "Allow", "Resource": "*"}]}`:                                                         "exactly one of: Action, NotAction",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "NotAction": "a", "Resource": "*"}]}`:                        "exactly one of: Action, NotAction",
		`{"Statement": [{"Effect": "Allow", "Action": "*"}]}`:                                                           "exactly one of: Resource, NotResource",
		`{"Statement": [{"Effect": "Allow", "Actions": "*", "Resource": "*"}]}`:                                         "unknown field",
		`{"Statement": [{"Effect": "Allow", "Action": 1, "Resource": "*"}]}`:                                            "cannot unmarshal",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Resource": "*"}]}`:     "statement 2",
		`{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sqs:SendMessage", "Resource": "*"}]}`: "has no Principal",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]} {}`:                                       "more follows",
	} {
		if _, err := ParseIdentity([]byte(policy)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", policy, err, want)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(karpenter))
	f.Add([]byte(`{"Statement": {"Effect": "Allow", "NotAction": ["[", "a:*"], "NotResource": ["*"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseIdentity(data)
		if err != nil {
			return
		}
		for _, action := range p.Allowed() {
			if !slices.Contains(Actions(), action) {
				t.Errorf("it allows %s, which SQS does not have", action)
			}
		}
	})
}
