package cloud

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/logic"
)

func TestWhatAPatternMatches(t *testing.T) {
	source, detailType := pattern(history.SpotInterruption)
	for text, want := range map[string]logic.Truth{
		`{"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}`: logic.Yes,
		`{"source": ["aws.health", "aws.ec2"]}`:                                              logic.Yes,
		`{}`:                                                                                 logic.Yes,
		`{"detail-type": [{"prefix": "EC2 Spot"}]}`:                                          logic.Maybe,
		`{"source": ["aws.ec2"], "detail": {"instance-action": ["stop"]}}`:                   logic.Maybe,
		`{"$or": [{"source": ["aws.ec2"]}]}`:                                                 logic.Maybe,
		`{"source": ["aws.health"], "detail-type": ["AWS Health Event"]}`:                    logic.No,
		`{"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"]}`: logic.No,
		`{"source": ["aws.health"], "detail": {}}`:                                           logic.No,
	} {
		var p eventPattern
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got := p.matches(source, detailType); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// What is read of a queue in AWS, with its key and the targets of its rules.
func TestWhatReachesAQueueInAWS(t *testing.T) {
	const queue, key, denied = "arn:aws:sqs:eu-west-1:111122223333:shop", "arn:aws:kms:eu-west-1:111122223333:key/1", `{"__type": "AccessDeniedException", "message": "not permitted"}`
	allows := func(resource, service string, actions ...string) string {
		text, err := json.Marshal(map[string]any{"Statement": map[string]any{"Effect": "Allow", "Principal": map[string]any{"Service": service}, "Action": actions, "Resource": resource}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	object := func(pairs ...string) string {
		m := map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			m[pair[0]] = pair[1]
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sends := allows(queue, "events.amazonaws.com", "sqs:SendMessage")
	attributes := func(more ...string) string {
		return `{"Attributes": ` + object(append([]string{"QueueArn", queue, "Policy", sends}, more...)...) + `}`
	}
	keyPolicy := func(text string) string { return object("Policy", text) }
	described := func(manager, state string) string {
		return `{"KeyMetadata": ` + object("KeyId", "1", "Arn", key, "KeyManager", manager, "KeyState", state) + `}`
	}
	target := func(more string) string { return `{"Targets": [{"Id": "q", "Arn": "` + queue + `"` + more + `}]}` }
	encrypted := attributes("KmsMasterKeyId", "alias/own")
	const yes, no, maybe = logic.Yes, logic.No, logic.Maybe
	for name, c := range map[string]struct {
		answers            map[string]string // by action
		policy, encryption logic.Truth
		why                string
		silent             string
	}{
		"sound":                              {nil, yes, yes, "", ""},
		"a key that lets EventBridge use it": {map[string]string{"GetQueueAttributes": encrypted, "GetKeyPolicy": keyPolicy(allows("*", "events.amazonaws.com", "kms:GenerateDataKey*", "kms:Decrypt"))}, yes, yes, "", ""},
		"a key that does not":                {map[string]string{"GetQueueAttributes": encrypted, "GetKeyPolicy": keyPolicy(allows("*", "sns.amazonaws.com", "kms:*"))}, yes, no, "in the policy of the queue's key, no statement allows kms:GenerateDataKey", ""},
		"a key that only decrypts":           {map[string]string{"GetQueueAttributes": encrypted, "GetKeyPolicy": keyPolicy(allows("*", "events.amazonaws.com", "kms:Decrypt"))}, yes, no, "kms:GenerateDataKey", ""},
		"a key that is disabled":             {map[string]string{"GetQueueAttributes": encrypted, "DescribeKey": described("CUSTOMER", "Disabled"), "GetKeyPolicy": keyPolicy("{}")}, yes, no, "disabled", ""},
		"a key of AWS by its id":             {map[string]string{"GetQueueAttributes": encrypted, "DescribeKey": described("AWS", "Enabled")}, yes, no, "alias/aws/sqs", ""},
		"a key that may not be read":         {map[string]string{"GetQueueAttributes": encrypted, "GetKeyPolicy": denied}, yes, maybe, "not permitted", ""},
		"a key that may not be described":    {map[string]string{"GetQueueAttributes": encrypted, "DescribeKey": denied}, yes, maybe, "alias/own is not known", ""},
		"a rule that is disabled":            {map[string]string{"DescribeRule": `{"State": "DISABLED", "EventPattern": "{}"}`}, yes, yes, "", "rule spot: it is DISABLED"},
		"a FIFO queue":                       {map[string]string{"GetQueueAttributes": attributes("FifoQueue", "true", "ContentBasedDeduplication", "true")}, yes, yes, "", "no SqsParameters.MessageGroupId"},
		"a FIFO queue, with a group":         {map[string]string{"GetQueueAttributes": attributes("FifoQueue", "true", "ContentBasedDeduplication", "true"), "ListTargetsByRule": target(`, "SqsParameters": {"MessageGroupId": "g"}`)}, yes, yes, "", ""},
		"an input transformer":               {map[string]string{"ListTargetsByRule": target(`, "InputTransformer": {"InputTemplate": "<x>"}`)}, yes, yes, "", "rule spot: its target has an InputTransformer"},
		"the detail alone":                   {map[string]string{"ListTargetsByRule": target(`, "InputPath": "$.detail"`)}, yes, yes, "", "the InputPath $.detail"},
		"the whole event by its path":        {map[string]string{"ListTargetsByRule": target(`, "InputPath": "$"`)}, yes, yes, "", ""},
		"a constant":                         {map[string]string{"ListTargetsByRule": target(`, "Input": "{}"`)}, yes, yes, "", "an Input:"},
		"a pattern with alternatives":        {map[string]string{"DescribeRule": `{"Arn": "arn:aws:events:eu-west-1:111122223333:rule/spot", "State": "ENABLED", "EventPattern": "{\"$or\": [{\"source\": [{\"prefix\": \"aws.\"}]}, {\"source\": [{\"anything-but\": [\"x\"]}]}], \"detail\": {\"instance-id\": [{\"exists\": true}]}}"}`}, yes, yes, "", ""},
		"a target with a role":               {map[string]string{"GetQueueAttributes": `{"Attributes": ` + object("QueueArn", queue, "Policy", allows(queue, "sns.amazonaws.com", "sqs:*")) + `}`, "ListTargetsByRule": target(`, "RoleArn": "r"`)}, maybe, yes, "has a role", ""},
	} {
		usual := map[string]string{
			"GetQueueUrl": `{"QueueUrl": "https://sqs.eu-west-1.amazonaws.com/111122223333/shop"}`, "GetQueueAttributes": attributes(),
			"ListRuleNamesByTarget": `{"RuleNames": ["spot"]}`, "ListTargetsByRule": target(""), "TestEventPattern": `{"Result": true}`,
			"DescribeRule": `{"Arn": "arn:aws:events:eu-west-1:111122223333:rule/spot", "State": "ENABLED", "EventPattern": "{\"source\": [\"aws.ec2\"]}"}`,
			"DescribeKey":  described("CUSTOMER", "Enabled"),
		}
		maps.Copy(usual, c.answers)
		a := fakeAWS(t, func(action, _ string) (int, string) {
			if usual[action] == denied {
				return 400, denied
			}
			return 200, usual[action]
		})
		cfg := aws.Config{Region: "eu-west-1", BaseEndpoint: aws.String(a.endpoint), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
		r, err := NoticesThatReach(t.Context(), cfg, "shop")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		silent := strings.Join(r.Silent, "; ")
		if r.Policy.Is != c.policy || r.Encryption.Is != c.encryption || !strings.Contains(r.Policy.Why+r.Encryption.Why, c.why) || !strings.Contains(silent, c.silent) || (silent == "") != (c.silent == "") {
			t.Errorf("%s: %+v, %+v, silent %q", name, r.Policy, r.Encryption, silent)
		}
		if heard := len(r.Unheard) < len(history.NoticeTypes()); heard != (c.silent == "") {
			t.Errorf("%s: unheard are %v", name, r.Unheard)
		}
	}
}

// Without one permission, only what it would show is unknown, and names it.
func TestWithoutOnePermission(t *testing.T) {
	const queue, key, region = "arn:aws:sqs:eu-west-1:111122223333:shop", "arn:aws:kms:eu-west-1:111122223333:key/1", "eu-west-1"
	allows := func(actions string) string {
		return strings.ReplaceAll(`{"Statement": {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": `+actions+`, "Resource": "*"}}`, `"`, `\"`)
	}
	usual := func(pattern string) map[string]string {
		return map[string]string{
			"GetQueueUrl":           `{"QueueUrl": "https://sqs.eu-west-1.amazonaws.com/111122223333/shop"}`,
			"GetQueueAttributes":    `{"Attributes": {"QueueArn": "` + queue + `", "KmsMasterKeyId": "` + key + `", "Policy": "` + allows(`"sqs:SendMessage"`) + `"}}`,
			"DescribeKey":           `{"KeyMetadata": {"KeyId": "1", "Arn": "` + key + `", "KeyManager": "CUSTOMER", "KeyState": "Enabled"}}`,
			"GetKeyPolicy":          `{"Policy": "` + allows(`["kms:GenerateDataKey*", "kms:Decrypt"]`) + `"}`,
			"ListRuleNamesByTarget": `{"RuleNames": ["spot"]}`, "ListTargetsByRule": `{"Targets": [{"Id": "q", "Arn": "` + queue + `"}]}`, "TestEventPattern": `{"Result": true}`,
			"DescribeRule": `{"Arn": "arn:aws:events:eu-west-1:111122223333:rule/spot", "State": "ENABLED", "EventPattern": "` + strings.ReplaceAll(pattern, `"`, `\"`) + `"}`,
		}
	}
	all := len(history.NoticeTypes())
	const every, filtered = `{"source": ["aws.ec2", "aws.health", "aws.autoscaling"]}`, `{"source": ["aws.ec2", "aws.health", "aws.autoscaling"], "detail": {"state": ["stopping"]}}`
	const yes, maybe = logic.Yes, logic.Maybe
	for name, c := range map[string]struct {
		lacks, pattern     string
		found              bool
		policy, encryption logic.Truth
		unclear            int
	}{
		"none is missing":                     {"", every, true, yes, yes, 0},
		"sqs:GetQueueUrl":                     {"sqs:GetQueueUrl", every, false, 0, 0, 0},
		"sqs:GetQueueAttributes":              {"sqs:GetQueueAttributes", every, true, maybe, maybe, 0},
		"kms:DescribeKey":                     {"kms:DescribeKey", every, true, yes, maybe, 0},
		"kms:GetKeyPolicy":                    {"kms:GetKeyPolicy", every, true, yes, maybe, 0},
		"events:ListRuleNamesByTarget":        {"events:ListRuleNamesByTarget", every, true, yes, yes, all},
		"events:DescribeRule":                 {"events:DescribeRule", every, true, yes, yes, all},
		"events:ListTargetsByRule":            {"events:ListTargetsByRule", every, true, yes, yes, all},
		"events:TestEventPattern":             {"events:TestEventPattern", every, true, yes, yes, 0},
		"events:TestEventPattern of a filter": {"events:TestEventPattern", filtered, true, yes, yes, all},
	} {
		a := fakeAWS(t, func(action, _ string) (int, string) {
			if _, lacks, _ := strings.Cut(c.lacks, ":"); lacks == action {
				return 400, `{"__type": "AccessDeniedException", "message": "User: arn:aws:iam::111122223333:user/ana is not authorized"}`
			}
			return 200, usual(c.pattern)[action]
		})
		cfg := aws.Config{Region: region, BaseEndpoint: aws.String(a.endpoint), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
		r, err := NoticesThatReach(t.Context(), cfg, "shop")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.found {
			if r.ARN != "" || !strings.Contains(r.Unread, c.lacks) {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if r.ARN != queue || r.Policy.Is != c.policy || r.Encryption.Is != c.encryption || len(r.Unclear) != c.unclear || len(r.Silent) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
		var why []string
		for _, d := range []iam.Decision{r.Policy, r.Encryption} {
			if d.Is == maybe {
				why = append(why, d.Why)
			}
		}
		for _, w := range append(why, r.Doubts...) {
			if !strings.Contains(w, c.lacks+" is not permitted") {
				t.Errorf("%s: the reason is %q", name, w)
			}
		}
	}
	// What every read lacks, and what AWS does not answer, ends it.
	a := fakeAWS(t, func(string, string) (int, string) {
		return 400, `{"__type": "ExpiredTokenException", "message": "The security token included in the request is expired"}`
	})
	cfg := aws.Config{Region: region, BaseEndpoint: aws.String(a.endpoint), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	if r, err := NoticesThatReach(t.Context(), cfg, "shop"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheARNOfAQueuesURL(t *testing.T) {
	for url, c := range map[string]struct{ region, want string }{
		"https://sqs.eu-west-1.amazonaws.com/111122223333/shop":          {"eu-west-1", "arn:aws:sqs:eu-west-1:111122223333:shop"},
		"https://sqs.cn-north-1.amazonaws.com.cn/111122223333/shop.fifo": {"cn-north-1", "arn:aws-cn:sqs:cn-north-1:111122223333:shop.fifo"},
		"https://sqs.us-gov-west-1.amazonaws.com/111122223333/a":         {"us-gov-west-1", "arn:aws-us-gov:sqs:us-gov-west-1:111122223333:a"},
	} {
		if got := arnOf(url, c.region); got != c.want {
			t.Errorf("%s: %s, want %s", url, got, c.want)
		}
	}
}
