package cloud

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/logic"
)

// templateOf is a template of a queue, its policy and two rules. Change replaces parts of it, old and new in
// turn.
func templateOf(change ...string) string {
	return strings.NewReplacer(change...).Replace(`Resources:
  Q: {Type: AWS::SQS::Queue, Properties: {MessageRetentionPeriod: 300}}
  Policy:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref Q]
      PolicyDocument:
        Statement:
        - {Effect: Allow, Principal: {Service: [events.amazonaws.com, sqs.amazonaws.com]}, Action: sqs:SendMessage, Resource: !GetAtt Q.Arn}
        - {Sid: DenyHTTP, Effect: Deny, Principal: "*", Action: sqs:*, Resource: !GetAtt Q.Arn, Condition: {StringEquals: {"aws:SecureTransport": "false"}}}
  Health: {Type: AWS::Events::Rule, Properties: {EventPattern: {source: [aws.health]}, Targets: [{Id: q, Arn: !GetAtt Q.Arn}]}}
  Spot: {Type: AWS::Events::Rule, Properties: {EventPattern: {source: [aws.ec2]}, Targets: [{Id: q, Arn: !GetAtt Q.Arn}]}}
`)
}

const (
	settingsOfQ = "MessageRetentionPeriod: 300"
	endOfAllow  = "Resource: !GetAtt Q.Arn}\n        - {Sid: DenyHTTP"
	ofSpot      = "EventPattern: {source: [aws.ec2]}"
)

// ifIt makes the statement that allows conditional.
func ifIt(condition string) string {
	return "Resource: !GetAtt Q.Arn, Condition: " + condition + "}\n        - {Sid: DenyHTTP"
}

// What AWS enforces and an emulator does not.
func TestWhatATemplateLetsThrough(t *testing.T) {
	key := func(policy string) string {
		return "Resources:\n  K: {Type: AWS::KMS::Key, Properties: {KeyPolicy: " + policy + "}}\n  A: {Type: AWS::KMS::Alias, Properties: {AliasName: alias/own, TargetKeyId: !Ref K}}\n"
	}
	const root = "{Effect: Allow, Principal: {AWS: !Sub 'arn:aws:iam::${AWS::AccountId}:root'}, Action: 'kms:*', Resource: '*'}"
	const events = "{Effect: Allow, Principal: {Service: events.amazonaws.com}, Action: ['kms:GenerateDataKey*', 'kms:Decrypt'], Resource: '*'}"
	encrypted := func(id, policy string) []string {
		return []string{"Resources:\n", key(policy), settingsOfQ, "KmsMasterKeyId: " + id}
	}
	const yes, no, maybe = logic.Yes, logic.No, logic.Maybe
	for name, c := range map[string]struct {
		change     []string
		parameters map[string]string
		policy     logic.Truth
		encryption logic.Truth
		why        string
	}{
		"sound":                            {nil, nil, yes, yes, ""},
		"the stack that drills use":        {nil, nil, yes, yes, ""},
		"no policy":                        {[]string{"Queues: [!Ref Q]", "Queues: [!Ref Other]", "Resources:\n", "Resources:\n  Other: {Type: AWS::SQS::Queue}\n"}, nil, no, yes, "has no policy"},
		"a policy in a text":               {[]string{"Queues: [!Ref Q]\n      PolicyDocument:", "Queues: [!Ref Q]\n      Ignored:", "Resources:\n", "Resources:\n  P2: {Type: AWS::SQS::QueueInlinePolicy, Properties: {Queue: !Ref Q, PolicyDocument: !Sub '{\"Statement\": {\"Effect\": \"Allow\", \"Principal\": \"*\", \"Action\": \"sqs:*\", \"Resource\": \"${Q.Arn}\"}}'}}\n", "Type: AWS::SQS::QueuePolicy", "Type: AWS::Own"}, nil, yes, yes, ""},
		"only for one rule":                {[]string{endOfAllow, ifIt("{ArnEquals: {'aws:SourceArn': !GetAtt Spot.Arn}}")}, nil, no, yes, "rule Health: in the queue's policy, no statement allows"},
		"for each rule":                    {[]string{endOfAllow, ifIt("{ArnEquals: {'aws:SourceArn': [!GetAtt Spot.Arn, !GetAtt Health.Arn]}}")}, nil, yes, yes, ""},
		"for any rule of the account":      {[]string{endOfAllow, ifIt("{ArnLike: {'AWS:SourceArn': !Sub 'arn:${AWS::Partition}:events:*:${AWS::AccountId}:rule/*'}, StringEquals: {'aws:SourceAccount': !Ref AWS::AccountId}}")}, nil, yes, yes, ""},
		"a literal account":                {[]string{endOfAllow, ifIt("{StringEquals: {'aws:SourceAccount': '111122223333'}}")}, nil, maybe, yes, "it is <account>"},
		"a literal account, which it is":   {[]string{endOfAllow, ifIt("{StringEquals: {'aws:SourceAccount': '111122223333'}}")}, map[string]string{"AWS::AccountId": "111122223333"}, yes, yes, ""},
		"a literal account, another":       {[]string{endOfAllow, ifIt("{StringEquals: {'aws:SourceAccount': 111122223333}}")}, map[string]string{"AWS::AccountId": "444455556666"}, no, yes, ""},
		"wildcards in StringEquals":        {[]string{endOfAllow, ifIt("{StringEquals: {'aws:SourceArn': 'arn:aws:events:*:*:rule/*'}}")}, nil, no, yes, "StringEquals"},
		"a literal rule, another":          {[]string{endOfAllow, ifIt("{ArnEquals: {'aws:SourceArn': 'arn:aws:events:eu-west-1:111122223333:rule/other'}}"), "{" + ofSpot, "{Name: spot, " + ofSpot, "{EventPattern: {source: [aws.health]}", "{Name: health, EventPattern: {source: [aws.health]}"}, nil, no, yes, "rule Health"},
		"any rule, of a literal partition": {[]string{endOfAllow, ifIt("{ArnLike: {'aws:SourceArn': 'arn:aws:events:*:*:rule/*'}}")}, nil, yes, yes, ""},
		"any rule, of two partitions":      {[]string{endOfAllow, ifIt("{ArnLike: {'aws:SourceArn': ['arn:aws-cn:events:*:*:rule/*', 'arn:aws:events:*:1:rule/*']}}")}, nil, maybe, yes, "<partition>"},
		"any rule of the stack":            {[]string{endOfAllow, ifIt("{ArnLike: {'aws:SourceArn': !Sub 'arn:aws:events:${AWS::Region}:${AWS::AccountId}:rule/${AWS::StackName}-*'}}")}, nil, yes, yes, ""},
		"any rule of another stack":        {[]string{endOfAllow, ifIt("{ArnLike: {'aws:SourceArn': 'arn:aws:events:*:*:rule/other-*'}}")}, map[string]string{"AWS::StackName": "shop"}, no, yes, "rule/shop-Health-<generated name of Health>"},
		"a queue by its literal name":      {[]string{settingsOfQ, settingsOfQ + ", QueueName: shop", endOfAllow, strings.Replace(endOfAllow, "!GetAtt Q.Arn", "!Sub 'arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:shop'", 1)}, nil, yes, yes, ""},
		"a queue by its generated name":    {[]string{endOfAllow, strings.Replace(endOfAllow, "!GetAtt Q.Arn", "!Sub 'arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:${AWS::StackName}-Q-*'", 1)}, nil, yes, yes, ""},
		"by any value":                     {[]string{endOfAllow, ifIt("{'ForAnyValue:ArnLike': {'aws:SourceArn': [!GetAtt Spot.Arn, !GetAtt Health.Arn]}}")}, nil, yes, yes, ""},
		"all but some actions":             {[]string{"Action: sqs:SendMessage", "NotAction: [sqs:DeleteQueue, 'sqs:Set*']"}, nil, yes, yes, ""},
		"denied to other rules":            {[]string{endOfAllow, "Resource: '*'}\n        - {Effect: Deny, Principal: '*', Action: 'sqs:SendMessage', Resource: '*', Condition: {ArnNotLikeIfExists: {'aws:SourceArn': [!GetAtt Spot.Arn, !GetAtt Health.Arn]}}}\n        - {Sid: DenyHTTP"}, nil, yes, yes, ""},
		"an organization":                  {[]string{endOfAllow, ifIt("{StringEquals: {'aws:PrincipalOrgID': o-1}}")}, nil, maybe, yes, "aws:PrincipalOrgID"},
		"of a disabled rule, not counted":  {[]string{endOfAllow, ifIt("{ArnEquals: {'aws:SourceArn': !GetAtt Health.Arn}}"), "{" + ofSpot, "{State: DISABLED, " + ofSpot}, nil, yes, yes, ""},
		"the target has a role":            {[]string{endOfAllow, ifIt("{ArnEquals: {'aws:SourceArn': !GetAtt Health.Arn}}"), ofSpot + ", Targets: [{Id: q", ofSpot + ", Targets: [{RoleArn: r, Id: q"}, nil, maybe, yes, "has a role"},

		"SQS's own keys":             {[]string{settingsOfQ, "SqsManagedSseEnabled: true"}, nil, yes, yes, "no key of KMS"},
		"the key of AWS":             {[]string{settingsOfQ, "KmsMasterKeyId: alias/aws/sqs"}, nil, yes, no, "alias/aws/sqs"},
		"the key of AWS, by its ARN": {[]string{settingsOfQ, "KmsMasterKeyId: !Sub 'arn:aws:kms:${AWS::Region}:${AWS::AccountId}:alias/aws/sqs'"}, nil, yes, no, "alias/aws/sqs"},
		"an own key":                 {encrypted("!GetAtt K.Arn", "{Statement: ["+root+", "+events+"]}"), nil, yes, yes, "the policy of the queue's key allows"},
		"an own key, by its alias":   {encrypted("alias/own", "{Statement: ["+events+"]}"), nil, yes, yes, ""},
		"an own key for the account": {encrypted("!Ref K", "{Statement: ["+root+"]}"), nil, yes, no, "no statement allows kms:GenerateDataKey"},
		"an own key, half":           {encrypted("!Ref A", "{Statement: ["+strings.Replace(events, "'kms:GenerateDataKey*', ", "", 1)+"]}"), nil, yes, no, "kms:GenerateDataKey"},
		"an own key, disabled":       {encrypted("!Ref K", "{Statement: ["+events+"]}, Enabled: false"), nil, yes, no, "disabled"},
		"a key from elsewhere":       {[]string{settingsOfQ, "KmsMasterKeyId: alias/shared"}, nil, yes, maybe, "alias/shared is not known"},
		"a key that is imported":     {[]string{settingsOfQ, "KmsMasterKeyId: !ImportValue key"}, nil, yes, maybe, "<import key>"},
	} {
		got, err := ReadTemplate([]byte(templateOf(c.change...)), TemplateOptions{Cluster: "shop", Parameters: c.parameters})
		if name == "the stack that drills use" {
			got, err = ReadTemplate([]byte(stackTemplate), TemplateOptions{Cluster: "shop"})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		policy, encryption := got.Queue.Lets(got.Rules), got.Queue.Encrypts(got.Rules)
		if policy.Is != c.policy || encryption.Is != c.encryption || !strings.Contains(policy.Why+encryption.Why, c.why) {
			t.Errorf("%s: policy %d (%s), encryption %d (%s); want %d, %d, %q", name, policy.Is, policy.Why, encryption.Is, encryption.Why, c.policy, c.encryption, c.why)
		}
	}
}

func TestWhatOfATemplateIsDeployed(t *testing.T) {
	const dead = "Resources:\n  Dead: {Type: AWS::SQS::Queue, Properties: {MessageRetentionPeriod: 1209600}}\n"
	for name, c := range map[string]struct {
		change        []string
		o             TemplateOptions
		has, lacks    []string // of what is deployed
		silent        string
		visible       time.Duration
		delay, retain time.Duration
		receives      int
	}{
		"sound": {has: []string{`"Q":`, `"Health":`, `"Spot":`, `"MessageRetentionPeriod":300`}, lacks: []string{"Policy"}, visible: 30 * time.Second, retain: 5 * time.Minute},
		"settings of the queue": {
			change: []string{settingsOfQ, "VisibilityTimeout: 60, DelaySeconds: '10'"}, has: []string{`"VisibilityTimeout":60`, `"DelaySeconds":10`},
			visible: time.Minute, delay: 10 * time.Second, retain: defaultRetention,
		},
		"with a dead-letter queue": {
			change: []string{"Resources:\n", dead, settingsOfQ, settingsOfQ + ", RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 3}"},
			has:    []string{`"RedrivePolicy":{"deadLetterTargetArn":{"Fn::GetAtt":["Dead","Arn"]},"maxReceiveCount":3}`, `"Dead":`}, visible: 30 * time.Second, retain: 5 * time.Minute, receives: 3,
		},
		"a rule's dead-letter queue": {
			change: []string{"Resources:\n", dead, ofSpot + ", Targets: [{Id: q", ofSpot + ", Targets: [{DeadLetterConfig: {Arn: !GetAtt Dead.Arn}, Id: q"}, lacks: []string{"Dead"}, visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a rule that is disabled": {
			change: []string{"{" + ofSpot, "{State: DISABLED, " + ofSpot}, has: []string{"Health"}, lacks: []string{"Spot"}, silent: "rule Spot: it is DISABLED", visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a rule on another bus": {
			change: []string{"{" + ofSpot, "{EventBusName: own, " + ofSpot}, lacks: []string{"Spot"}, silent: "rule Spot: it is on event bus own", visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a FIFO queue, with a group": {
			change: []string{settingsOfQ, settingsOfQ + ", FifoQueue: true, ContentBasedDeduplication: 'true'", "Targets: [{Id: q, Arn: !GetAtt Q.Arn", "Targets: [{Id: q, SqsParameters: {MessageGroupId: g}, Arn: !GetAtt Q.Arn"},
			has:    []string{"Spot", "Health", `"SqsParameters":{"MessageGroupId":"g"}`, `"FifoQueue":true`}, visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a FIFO queue, without a group": {
			change: []string{settingsOfQ, settingsOfQ + ", FifoQueue: true, ContentBasedDeduplication: true"},
			lacks:  []string{"Spot", "Health"}, silent: "rule Health: the queue is a FIFO queue, and its target has no SqsParameters.MessageGroupId", visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a FIFO queue, without deduplication": {
			change: []string{settingsOfQ, settingsOfQ + ", FifoQueue: true", "Targets: [{Id: q, Arn: !GetAtt Q.Arn", "Targets: [{Id: q, SqsParameters: {MessageGroupId: g}, Arn: !GetAtt Q.Arn"},
			lacks:  []string{"Spot", "Health"}, silent: "rule Health: the queue is a FIFO queue without ContentBasedDeduplication", visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a rule to somewhere else, and an output": {
			change: []string{"Resources:\n", "Outputs: {O: {Value: !Ref F}}\nResources:\n  F: {Type: AWS::Lambda::Function}\n  ToF: {Type: AWS::Events::Rule, Properties: {EventPattern: {}, Targets: [{Id: f, Arn: !GetAtt F.Arn}]}}\n"},
			lacks:  []string{"ToF"}, visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a parameter with a value": {
			change: []string{"Resources:\n", "Parameters: {Environment: {Type: String}, Unused: {Type: String}}\nResources:\n", settingsOfQ, settingsOfQ + ", QueueName: !Sub '${Environment}-${AWS::AccountId}'"},
			o:      TemplateOptions{Parameters: map[string]string{"Environment": "prod"}}, has: []string{`"QueueName":"prod-000000000000"`}, visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"two queues with rules, and a name": {
			change: []string{"Resources:\n", "Resources:\n  R: {Type: AWS::SQS::Queue}\n  ToR: {Type: AWS::Events::Rule, Properties: {EventPattern: {source: [aws.ec2]}, Targets: [{Id: r, Arn: !GetAtt R.Arn}]}}\n"},
			o:      TemplateOptions{Queue: "Q"}, has: []string{"Spot"}, lacks: []string{"ToR"}, visible: 30 * time.Second, retain: 5 * time.Minute,
		},
		"a pattern with numbers and functions": {
			change: []string{ofSpot, "EventPattern: {source: [!Sub 'aws.${Empty}ec2'], region: [!Ref AWS::Region], detail: {n: [{numeric: ['>', 0]}], e: [{exists: true}]}}", "Resources:\n", "Parameters: {Empty: {Type: String, Default: ''}}\nResources:\n"},
			has:    []string{`"source":["aws.ec2"]`, `"region":["eu-central-1"]`, `{"numeric":["\u003e",0]}`, `{"exists":true}`}, visible: 30 * time.Second, retain: 5 * time.Minute,
		},
	} {
		got, err := ReadTemplate([]byte(templateOf(c.change...)), c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := got.body("eu-central-1")
		if err != nil || !json.Valid([]byte(body)) {
			t.Fatalf("%s: %v, %s", name, err, body)
		}
		for _, part := range c.has {
			if !strings.Contains(body, part) {
				t.Errorf("%s: no %s in %s", name, part, body)
			}
		}
		for _, part := range c.lacks {
			if strings.Contains(body, `"`+part) {
				t.Errorf("%s: %s is in %s", name, part, body)
			}
		}
		if !strings.HasPrefix(got.Silent(), c.silent) || c.silent == "" && got.Silent() != "" {
			t.Errorf("%s: silent are %q, want %q", name, got.Silent(), c.silent)
		}
		if got.VisibilityTimeout != c.visible || got.Delay != c.delay || got.Retention != c.retain || got.MaxReceives != c.receives {
			t.Errorf("%s: %s, %s, %s, %d", name, got.VisibilityTimeout, got.Delay, got.Retention, got.MaxReceives)
		}
	}
}

func TestReadTemplateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		o        TemplateOptions
		want     string
	}{
		"Terraform":  {"resource \"aws_sqs_queue\" \"q\" {\n}\n", TemplateOptions{}, "it is of Terraform"},
		"no queue":   {"Resources: {R: {Type: AWS::Events::Rule}}", TemplateOptions{}, "no resource of type AWS::SQS::Queue"},
		"two queues": {"Resources: {A: {Type: AWS::SQS::Queue}, B: {Type: AWS::SQS::Queue}}", TemplateOptions{}, "name one by QUEUE=NAME"},
		"no such queue": {
			templateOf(), TemplateOptions{Queue: "Other"}, "no resource Other of type AWS::SQS::Queue; it has: Q",
		},
		"a parameter without a value": {
			templateOf("Resources:\n", "Parameters: {Environment: {Type: String}}\nResources:\n", settingsOfQ, "QueueName: !Sub '${Environment}-q'"), TemplateOptions{}, "PARAMETERS=Environment=VALUE",
		},
		"a condition without a value": {
			templateOf("Resources:\n", "Parameters: {E: {Type: String}}\nConditions: {P: !Equals [!Ref E, p]}\nResources:\n", "Spot: {", "Spot: {Condition: P, "), TemplateOptions{}, "PARAMETERS=E=VALUE",
		},
		"a parameter that it does not have":      {templateOf(), TemplateOptions{Parameters: map[string]string{"E": "p"}}, "no parameter E"},
		"a visibility timeout of no number":      {templateOf(settingsOfQ, "VisibilityTimeout: long"), TemplateOptions{}, "not a number of seconds"},
		"a state that EventBridge does not have": {templateOf("{"+ofSpot, "{State: disabled, "+ofSpot), TemplateOptions{}, `Spot.State is "disabled"; EventBridge has: [ENABLED DISABLED`},
		"an import":                              {templateOf(settingsOfQ, "QueueName: !ImportValue x"), TemplateOptions{}, "Q.QueueName is not decided by the template: it depends on import x"},
	} {
		if _, err := ReadTemplate([]byte(c.template), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
