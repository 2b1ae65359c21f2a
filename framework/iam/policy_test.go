package iam

import (
	_ "embed"
	"net/url"
	"regexp"
	"slices"
	"strconv"
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
		if got, _ := p.Allowed(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// A condition or a Deny that is not known to apply is a doubt; one that does not apply is none.
func TestDoubtsAboutWhatIsAllowed(t *testing.T) {
	const shop, audit = "arn:aws:sqs:eu-west-1:111122223333:shop", "arn:aws:sqs:eu-west-1:111122223333:audit"
	statement := func(effect, resource, condition string) string {
		if condition != "" {
			condition = `, "Condition": ` + condition
		}
		return `{"Effect": "` + effect + `", "Action": "sqs:ReceiveMessage", "Resource": "` + resource + `"` + condition + `}`
	}
	for name, c := range map[string]struct {
		statements []string
		allowed    bool
		doubt      string
	}{
		"plain":                          {[]string{statement("Allow", shop, "")}, true, ""},
		"by TLS":                         {[]string{statement("Allow", shop, `{"Bool": {"aws:SecureTransport": "true"}}`)}, true, ""},
		"only without TLS":               {[]string{statement("Allow", shop, `{"Bool": {"aws:SecureTransport": false}}`)}, false, ""},
		"by a tag":                       {[]string{statement("Allow", shop, `{"StringEquals": {"aws:ResourceTag/team": "a"}}`)}, true, "ReceiveMessage: statement 1 may allow it: its condition aws:ResourceTag/team"},
		"denied by the region":           {[]string{statement("Allow", shop, ""), statement("Deny", "*", `{"StringNotEquals": {"aws:RequestedRegion": ["eu-west-1"]}}`)}, true, "statement 2 may deny it: its condition aws:RequestedRegion"},
		"denied, by any value":           {[]string{statement("Allow", shop, ""), statement("Deny", "*", `{"ForAnyValue:StringLike": {"aws:PrincipalOrgPaths": ["o-1/*"]}}`)}, true, "aws:PrincipalOrgPaths"},
		"denied without TLS":             {[]string{statement("Allow", shop, ""), statement("Deny", "*", `{"Bool": {"aws:SecureTransport": "false"}}`)}, true, ""},
		"another queue is denied":        {[]string{statement("Allow", shop, ""), statement("Deny", audit, "")}, true, ""},
		"this queue is denied":           {[]string{statement("Allow", shop, ""), statement("Deny", shop, "")}, false, ""},
		"a pattern of it is denied":      {[]string{statement("Allow", shop, ""), statement("Deny", "arn:aws:sqs:*:*:sh*", "")}, false, ""},
		"one of all queues is denied":    {[]string{statement("Allow", "*", ""), statement("Deny", audit, "")}, true, "statement 2 may deny it: it is about some of *"},
		"all are denied but one":         {[]string{statement("Allow", shop, ""), strings.Replace(statement("Deny", shop, ""), "Resource", "NotResource", 1)}, true, ""},
		"all are denied but another":     {[]string{statement("Allow", shop, ""), strings.Replace(statement("Deny", audit, ""), "Resource", "NotResource", 1)}, false, ""},
		"one of two is denied":           {[]string{statement("Allow", shop, ""), statement("Allow", audit, ""), statement("Deny", audit, "")}, true, ""},
		"another statement has no doubt": {[]string{statement("Allow", shop, `{"StringEquals": {"aws:ResourceTag/team": "a"}}`), statement("Allow", shop, "")}, true, ""},
	} {
		p, err := ParseIdentity([]byte(`{"Statement": [` + strings.Join(c.statements, ", ") + `]}`))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		allowed, doubts := p.Allowed()
		if (len(allowed) == 1) != c.allowed || (len(doubts) > 0) != (c.doubt != "") || !strings.Contains(strings.Join(doubts, ""), c.doubt) {
			t.Errorf("%s: %v, doubts %q; want %t, %q", name, allowed, doubts, c.allowed, c.doubt)
		}
	}
}

func TestManagedPoliciesOfATemplateAreADoubt(t *testing.T) {
	p, err := ParseIdentity([]byte(`Resources:
  R:
    Type: AWS::IAM::Role
    Properties:
      ManagedPolicyArns: [!Sub 'arn:${AWS::Partition}:iam::aws:policy/AmazonSQSReadOnlyAccess']
      Policies: [{PolicyName: p, PolicyDocument: {Statement: {Effect: Allow, Action: sqs:ReceiveMessage, Resource: '*'}}}]
`))
	allowed, doubts := p.Allowed()
	if err != nil || !slices.Equal(allowed, []string{"ReceiveMessage"}) || len(doubts) != 1 || !strings.Contains(doubts[0], "AmazonSQSReadOnlyAccess") {
		t.Errorf("%v, doubts %q, %v", allowed, doubts, err)
	}
}

// What aws iam and CloudFormation print, and what people write by hand.
func TestTheFormsOfAPolicy(t *testing.T) {
	const document = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["sqs:ReceiveMessage", "kms:Decrypt"], "Resource": "*"}]}`
	escaped := url.PathEscape(document)
	for name, text := range map[string]string{
		"the document":                  document,
		"with tabs":                     strings.ReplaceAll(document, " ", "\t"),
		"get-policy-version":            `{"PolicyVersion": {"Document": ` + document + `, "VersionId": "v3", "IsDefaultVersion": true, "CreateDate": "2026-01-01T00:00:00+00:00"}}`,
		"get-role-policy":               `{"RoleName": "r", "PolicyName": "p", "PolicyDocument": ` + document + `}`,
		"get-role-policy, URL-encoded":  `{"RoleName": "r", "PolicyName": "p", "PolicyDocument": "` + escaped + `"}`,
		"the encoded document":          escaped,
		"quoted":                        strconv.Quote(document),
		"get-role-policy --output yaml": "PolicyName: p\nPolicyDocument:\n  Version: '2012-10-17'\n  Statement:\n  - Effect: Allow\n    Action: ['sqs:ReceiveMessage', 'kms:Decrypt']\n    Resource: '*'\n",
		"YAML, its version no text":     "Version: 2012-10-17\nStatement:\n- {Effect: Allow, Action: [sqs:ReceiveMessage, 'kms:Decrypt'], Resource: '*'}\n",
		"with a function":               `{"Statement": [{"Effect": "Allow", "Action": ["sqs:ReceiveMessage", "kms:Decrypt"], "Resource": {"Fn::GetAtt": ["Queue", "Arn"]}}]}`,
		"with short forms":              "Statement:\n- {Effect: Allow, Action: [sqs:ReceiveMessage, 'kms:Decrypt'], Resource: !Sub 'arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:q'}\n",
		"with a function in a list":     "Statement:\n- {Effect: Allow, Action: ['kms:Decrypt', sqs:ReceiveMessage], Resource: [!GetAtt Table.Arn, !GetAtt Queue.Arn]}\n",
		"a template, its policy a text": "Resources:\n  Q: {Type: AWS::SQS::Queue}\n  P:\n    Type: AWS::IAM::ManagedPolicy\n    Properties:\n      PolicyDocument: !Sub |\n        {\"Statement\": [{\"Effect\": \"Allow\", \"Action\": [\"sqs:ReceiveMessage\", \"kms:Decrypt\"], \"Resource\": \"${Q.Arn}\"}]}\n",
		"a template with an inline policy, and a trust policy": "Resources:\n  R:\n    Type: AWS::IAM::Role\n    Properties:\n      AssumeRolePolicyDocument: {Statement: [{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: sts:AssumeRole}]}\n      Policies:\n      - PolicyName: p\n        PolicyDocument: " + document + "\n",
		"get-template": `{"TemplateBody": {"Resources": {"P": {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": ` + document + `}}}}}`,
	} {
		p, err := ParseIdentity([]byte(text))
		if got, _ := p.Allowed(); err != nil || !slices.Equal(got, []string{"ReceiveMessage"}) || !slices.Equal(p.Keys(), []string{"kms:Decrypt"}) {
			t.Errorf("%s: %v, %v, %v", name, got, p.Keys(), err)
		}
	}
}

func TestPoliciesAreTakenTogether(t *testing.T) {
	parse := func(text string) Policy {
		p, err := ParseIdentity([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := parse(`{"Statement": {"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "*"}}`)
	other := parse(`{"Statement": {"Effect": "Allow", "Action": ["sqs:DeleteMessage", "sqs:GetQueueUrl"], "Resource": "*"}}`)
	denies := parse(`{"Statement": {"Effect": "Deny", "Action": "sqs:Delete*", "Resource": "*"}}`)
	if got, _ := Join(one, other).Allowed(); !slices.Equal(got, []string{"DeleteMessage", "GetQueueUrl", "ReceiveMessage"}) {
		t.Errorf("two allow %v", got)
	}
	if got, _ := Join(denies, one, other).Allowed(); !slices.Equal(got, []string{"GetQueueUrl", "ReceiveMessage"}) {
		t.Errorf("with one that denies: %v", got)
	}
}

func TestParseIdentityRefuses(t *testing.T) {
	for policy, want := range map[string]string{
		"":                   "it is empty",
		"{":                  "it is no policy",
		"[]":                 "empty list",
		"text":               "it is a text",
		"{}":                 "no Statement",
		`{"Statements": []}`: "IAM has no element Statements here",
		`{"Statement": []}`:  "no Statement",
		`{"Statement": [{"Effect": "allow", "Action": "*", "Resource": "*"}]}`:                                          `statement 1: the Effect "allow"`,
		`{"Statement": [{"Effect": "Allow", "Resource": "*"}]}`:                                                         "exactly one of: Action, NotAction",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "NotAction": "a", "Resource": "*"}]}`:                        "exactly one of: Action, NotAction",
		`{"Statement": [{"Effect": "Allow", "Action": "*"}]}`:                                                           "exactly one of: Resource, NotResource",
		`{"Statement": [{"Effect": "Allow", "Actions": "*", "Resource": "*"}]}`:                                         "IAM has no element Actions here",
		`{"Statement": [{"Effect": "Allow", "Action": 1, "Resource": "*"}]}`:                                            "statement 1: Action is a text or a list of texts, not 1",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Resource": "*"}]}`:     "statement 2",
		`{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sqs:SendMessage", "Resource": "*"}]}`: "has no Principal",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]} {}`:                                       "more follows",
		`{"Policy": {"PolicyName": "p", "DefaultVersionId": "v3"}}`:                                                     "get-policy-version --policy-arn",
		`{"Role": {"AssumeRolePolicyDocument": {"Statement": []}}}`:                                                     "get-role-policy",
		`{"AttachedPolicies": [{"PolicyName": "p"}]}`:                                                                   "it lists policies",
		`{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`:                                                             "without an IAM policy",
		`{"Statement": "x"}`:                                    "it is not a mapping",
		`{"Policies": [{"PolicyName": "p", "Arn": "a"}]}`:       "it lists policies",
		`{"User": {"UserName": "u"}}`:                           "it describes a user",
		`{"Roles": [{"RoleName": "r"}]}`:                        "it lists roles",
		`{"RoleDetailList": [], "Policies": []}`:                "it has the policies of all roles",
		`{"EvaluationResults": []}`:                             "results of a simulation",
		`{"Attributes": {"Policy": "{}"}}`:                      "the attributes of a queue",
		`{"version": 4, "terraform_version": "1.9"}`:            "it is of Terraform",
		"apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\n": "it is a ClusterConfig of Kubernetes",
		`{"Statement": [{"Effect": "Allow", "Action": "sqs:ReceiveMessage, sqs:DeleteMessage", "Resource": "*"}]}`:               `the action "sqs:ReceiveMessage, sqs:DeleteMessage" is none: write a list`,
		"data \"aws_iam_policy_document\" \"x\" {\n}\n":                                                                          "it is of Terraform",
		`{"resource": {"aws_iam_policy": {}}}`:                                                                                   "it is of Terraform",
		`{"format_version": "1.0", "values": {}}`:                                                                                "it is of Terraform",
		"Resources: {R: {Type: AWS::IAM::Role, Properties: {ManagedPolicyArns: [arn:aws:iam::aws:policy/AmazonSQSFullAccess]}}}": "only names policies: take what `aws iam get-policy-version` prints for each: arn:aws:iam::aws:policy/AmazonSQSFullAccess",
	} {
		_, err := ParseIdentity([]byte(policy))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", policy, err, want)
		}
		if err != nil && regexp.MustCompile(`Go (value|struct)|cannot unmarshal|map\[string|interface`).MatchString(err.Error()) {
			t.Errorf("%s: the error has types of Go: %v", policy, err)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(karpenter))
	f.Add([]byte(`{"Statement": {"Effect": "Allow", "NotAction": ["[", "a:*"], "NotResource": ["*"]}}`))
	f.Add([]byte("Statement:\n- {Effect: Deny, NotPrincipal: {AWS: '*'}, Action: !Ref A, Resource: !Sub '${B}', Condition: {ArnNotLike: {aws:SourceArn: [a, !Ref C]}}}"))
	f.Add([]byte(`"%7B%22Statement%22%3A%22x%22%7D"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		request := Request{Service: "events.amazonaws.com", Action: "sqs:SendMessage", Resource: "arn:aws:sqs:r:1:q", Context: map[string]string{"aws:sourcearn": "arn:aws:events:r:1:rule/x"}}
		if p, err := ParseResource(data); err == nil {
			d := p.Decide(request)
			if d.Why == "" {
				t.Errorf("%v without a reason", d.Is)
			}
			if again := p.Decide(request); again != d {
				t.Errorf("%v, and then %v", d, again)
			}
		}
		p, err := ParseIdentity(data)
		if err != nil {
			return
		}
		allowed, _ := p.Allowed()
		for _, action := range allowed {
			if !slices.Contains(Actions(), action) {
				t.Errorf("it allows %s, which SQS does not have", action)
			}
		}
	})
}
