package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/spotdrill/spotdrill/framework/history"
)

// before is a proxy before an upstream, and where it serves.
func before(t *testing.T, upstream http.HandlerFunc) (p *Proxy, endpoint string) {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p = New(target)
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	return p, front.URL
}

// The AWS SDK's own client takes the proxy's answers for Auto Scaling's.
func TestLifecycleActions(t *testing.T) {
	p, endpoint := before(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s reached the upstream", r.URL)
		w.WriteHeader(http.StatusNotImplemented)
	})
	events := p.records.join()
	client := autoscaling.NewFromConfig(aws.Config{
		Region: "eu-west-1", BaseEndpoint: &endpoint, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider(history.AccessKeyPrefix+history.OtherHandler, "x", ""),
	})
	ctx := context.Background()
	group, hook, token, instance := aws.String("group"), aws.String("hook"), aws.String("token"), aws.String("i-1")
	if _, err := client.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: group, LifecycleHookName: hook, LifecycleActionToken: token, InstanceId: instance, LifecycleActionResult: aws.String("CONTINUE"),
	}); err != nil {
		t.Errorf("complete: %v", err)
	}
	if _, err := client.RecordLifecycleActionHeartbeat(ctx, &autoscaling.RecordLifecycleActionHeartbeatInput{
		AutoScalingGroupName: group, LifecycleHookName: hook, LifecycleActionToken: token, InstanceId: instance,
	}); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	for name, in := range map[string]*autoscaling.CompleteLifecycleActionInput{
		"no token and no instance": {AutoScalingGroupName: group, LifecycleHookName: hook, LifecycleActionResult: aws.String("CONTINUE")},
		"an unknown result":        {AutoScalingGroupName: group, LifecycleHookName: hook, InstanceId: instance, LifecycleActionResult: aws.String("DONE")},
		"no group":                 {AutoScalingGroupName: aws.String(""), LifecycleHookName: hook, InstanceId: instance, LifecycleActionResult: aws.String("CONTINUE")},
	} {
		if _, err := client.CompleteLifecycleAction(ctx, in); err == nil || !strings.Contains(err.Error(), "ValidationError") {
			t.Errorf("%s: %v, want a ValidationError", name, err)
		}
	}
	var acted []history.Event
	for len(events) > 0 {
		if e := <-events; e.Kind == history.LifecycleActed {
			acted = append(acted, e)
		}
	}
	if len(acted) != 2 || acted[0].Action != "CompleteLifecycleAction" || acted[0].LifecycleResult() != "CONTINUE" || acted[1].Action != "RecordLifecycleActionHeartbeat" {
		t.Fatalf("recorded %+v", acted)
	}
	if e := acted[0]; e.Instance != "i-1" || e.Hook() != "hook" || e.Note != "token" || e.By != history.OtherHandler {
		t.Errorf("recorded %+v", e)
	}
}
