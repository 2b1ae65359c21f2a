package iam

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/logic"
)

func TestDecide(t *testing.T) {
	const (
		queue = "arn:aws:sqs:eu-west-1:111122223333:shop"
		rule  = "arn:aws:events:eu-west-1:111122223333:rule/spot"
	)
	statement := func(effect, principal, action, resource, condition string) string {
		if condition != "" {
			condition = `, "Condition": ` + condition
		}
		return `{"Effect": "` + effect + `", "Principal": ` + principal + `, "Action": ` + action + `, "Resource": ` + resource + condition + `}`
	}
	const service, send, this = `{"Service": "events.amazonaws.com"}`, `"sqs:SendMessage"`, `"` + queue + `"`
	allow := func(principal, action, resource string) string {
		return statement("Allow", principal, action, resource, "")
	}
	allowIf := func(condition string) string { return statement("Allow", service, send, this, condition) }
	denyIf := func(condition string) string {
		return allow(service, send, this) + ", " + statement("Deny", `"*"`, `"sqs:*"`, `"*"`, condition)
	}
	const yes, no, maybe = logic.Yes, logic.No, logic.Maybe
	for name, c := range map[string]struct {
		statements string
		want       logic.Truth
		why        string
	}{
		"allowed":                {allow(service, send, this), yes, "statement 1 allows"},
		"among others":           {allow(`{"Service": ["sqs.amazonaws.com", "events.amazonaws.com"]}`, `["sqs:GetQueueUrl", "SQS:sendmessage"]`, `[`+this+`]`), yes, ""},
		"by patterns":            {allow(`"*"`, `"sqs:Send*"`, `"arn:aws:sqs:*:*:sh?p"`), yes, ""},
		"everybody, as AWS":      {allow(`{"AWS": "*"}`, send, `"*"`), yes, ""},
		"another service":        {allow(`{"Service": "sns.amazonaws.com"}`, send, this), no, "no statement allows"},
		"an account":             {allow(`{"AWS": "arn:aws:iam::111122223333:root"}`, send, this), no, ""},
		"another action":         {allow(service, `"sqs:ReceiveMessage"`, this), no, ""},
		"another queue":          {allow(service, send, `"arn:aws:sqs:eu-west-1:111122223333:other"`), no, ""},
		"in another case":        {allow(service, send, `"arn:aws:sqs:eu-west-1:111122223333:Shop"`), no, ""},
		"denied":                 {denyIf(""), no, "denies"},
		"denied without TLS":     {denyIf(`{"Bool": {"aws:SecureTransport": "false"}}`), yes, ""},
		"that, as a boolean":     {denyIf(`{"Bool": {"aws:SecureTransport": false}}`), yes, ""},
		"that, as a text":        {denyIf(`{"StringEquals": {"aws:SecureTransport": "false"}}`), yes, ""},
		"denied off a network":   {denyIf(`{"StringNotEquals": {"aws:SourceVpce": "vpce-1"}}`), maybe, "may deny it: its condition aws:SourceVpce"},
		"denied to other rules":  {denyIf(`{"ArnNotEquals": {"aws:SourceArn": "` + rule + `"}}`), yes, ""},
		"denied but to another":  {denyIf(`{"ArnNotLike": {"aws:SourceArn": "arn:aws:events:*:*:rule/other-*"}}`), no, "denies"},
		"denied but to services": {denyIf(`{"Bool": {"aws:PrincipalIsAWSService": "false"}}`), yes, ""},

		"from this rule":                      {allowIf(`{"ArnEquals": {"aws:SourceArn": "` + rule + `"}}`), yes, ""},
		"from any rule":                       {allowIf(`{"ArnLike": {"AWS:SourceArn": "arn:aws:events:*:111122223333:rule/*"}}`), yes, ""},
		"ArnEquals has wildcards, too":        {allowIf(`{"ArnEquals": {"aws:SourceArn": ["arn:aws:events:*:*:rule/sp*"]}}`), yes, ""},
		"from another rule":                   {allowIf(`{"ArnEquals": {"aws:SourceArn": "arn:aws:events:eu-west-1:111122223333:rule/health"}}`), no, "and it is " + rule},
		"StringEquals has no wildcards":       {allowIf(`{"StringEquals": {"aws:SourceArn": "arn:aws:events:*:*:rule/*"}}`), no, "StringEquals"},
		"StringLike has them":                 {allowIf(`{"StringLike": {"aws:SourceArn": "*:rule/spot"}}`), yes, ""},
		"an ARN's wildcard stays in its part": {allowIf(`{"ArnLike": {"aws:SourceArn": "arn:aws:events:*:rule/spot"}}`), no, ""},
		"from this account":                   {allowIf(`{"StringEquals": {"aws:SourceAccount": "111122223333"}}`), yes, ""},
		"from another account":                {allowIf(`{"StringEquals": {"aws:SourceAccount": ["999999999999"]}}`), no, "aws:SourceAccount"},
		"one of two is enough":                {allowIf(`{"StringEquals": {"aws:SourceAccount": ["999999999999", "111122223333"]}}`), yes, ""},
		"both must be met":                    {allowIf(`{"ArnEquals": {"aws:SourceArn": "` + rule + `"}, "StringEquals": {"aws:SourceAccount": "9"}}`), no, ""},
		"from an organization":                {allowIf(`{"StringEquals": {"aws:SourceOrgID": "o-1"}}`), maybe, "aws:SourceOrgID StringEquals o-1 cannot be evaluated"},
		"if the key is there":                 {allowIf(`{"ArnLikeIfExists": {"aws:SourceArn": "arn:aws:events:*:*:rule/other"}}`), no, ""},
		"the key is there":                    {allowIf(`{"Null": {"aws:SourceArn": "false"}}`), yes, ""},
		"the key is not there":                {allowIf(`{"Null": {"aws:SourceArn": true}}`), no, ""},
		"with a variable":                     {allowIf(`{"StringEquals": {"aws:SourceAccount": "${aws:PrincipalAccount}"}}`), maybe, ""},
		"by the time":                         {allowIf(`{"DateLessThan": {"aws:CurrentTime": "2030-01-01T00:00:00Z"}}`), maybe, ""},
		"of another statement as well":        {allowIf(`{"StringEquals": {"aws:SourceOrgID": "o-1"}}`) + ", " + allow(service, send, this), yes, ""},
		"not to others":                       {`{"Effect": "Allow", "NotPrincipal": {"Service": "events.amazonaws.com"}, "Action": "*", "Resource": "*"}`, no, ""},
		"by NotAction":                        {`{"Effect": "Allow", "Principal": "*", "NotAction": "sqs:DeleteQueue", "Resource": "*"}`, yes, ""},
		"by NotResource":                      {`{"Effect": "Allow", "Principal": "*", "Action": "*", "NotResource": ` + this + `}`, no, ""},
	} {
		p, err := ParseResource([]byte(`{"Version": "2012-10-17", "Statement": [` + c.statements + `]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := p.Decide(Request{Service: "events.amazonaws.com", Action: "sqs:SendMessage", Resource: queue, Context: map[string]string{
			"aws:sourcearn": rule, "aws:sourceaccount": "111122223333", "aws:securetransport": "true", "aws:principalisawsservice": "true",
		}})
		if d.Is != c.want || !strings.Contains(d.Why, c.why) {
			t.Errorf("%s: %d, %q; want %d, %q", name, d.Is, d.Why, c.want, c.why)
		}
	}
}

func TestParseResourceRefuses(t *testing.T) {
	for policy, want := range map[string]string{`{}`: "no Statement", `Statement: []`: "no Statement", `{"Statement":[3]}`: "statement 1: it is not a mapping: 3"} {
		if _, err := ParseResource([]byte(policy)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", policy, err, want)
		}
	}
}
