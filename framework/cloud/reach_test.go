package cloud

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/spotdrill/spotdrill/framework/cloudformation"
	"github.com/spotdrill/spotdrill/framework/history"
)

func TestWhatAPatternMatches(t *testing.T) {
	source, detailType := pattern(history.SpotInterruption)
	for text, want := range map[string]bool{
		`{"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}`: true,
		`{"source": ["aws.health", "aws.ec2"]}`:                                              true,
		`{"detail-type": [{"prefix": "EC2 Spot"}]}`:                                          true,
		`{"source": ["aws.health"], "detail-type": ["AWS Health Event"]}`:                    false,
		`{"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"]}`: false,
	} {
		var p eventPattern
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got := p.matches(source, detailType); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func TestLocalStackNoticesThatReachAQueue(t *testing.T) {
	const queue = "reach" // named after the cluster
	a := realStack(t, queue)
	cfg := aws.Config{Region: testRegion, BaseEndpoint: aws.String(a.endpoint), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	r, err := NoticesThatReach(t.Context(), cfg, queue)
	if err != nil || r.ARN == "" || len(r.Unheard) > 0 || r.Policy.Is != cloudformation.Yes || r.Encryption.Is != cloudformation.Yes {
		t.Errorf("with the rules of the stack: %v, %+v", err, r)
	}
	client := eventbridge.NewFromConfig(cfg)
	names, err := client.ListRuleNamesByTarget(t.Context(), &eventbridge.ListRuleNamesByTargetInput{TargetArn: &r.ARN})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names.RuleNames {
		if _, err := client.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: &name}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := NoticesThatReach(t.Context(), cfg, queue); err != nil || len(r.Unheard) != len(history.NoticeTypes()) {
		t.Errorf("with no rule enabled: %v, %+v", err, r)
	}
	if r, err := NoticesThatReach(t.Context(), cfg, "no-such-queue"); err != nil || r.ARN != "" {
		t.Errorf("no such queue: %v, %+v", err, r)
	}
}
