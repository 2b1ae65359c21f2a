package builtin

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

// autoScaling records the calls of a client, and answers them with a status.
type autoScaling struct {
	calls []url.Values
	// failing is how many calls are yet to fail; code is their error.
	failing int
	code    string
}

func (a *autoScaling) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	a.calls = append(a.calls, form)
	status, text := http.StatusOK, "<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/></CompleteLifecycleActionResponse>"
	if a.failing > 0 {
		a.failing--
		status, text = http.StatusBadRequest, "<ErrorResponse><Error><Code>"+a.code+"</Code><Message>no</Message></Error></ErrorResponse>"
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, err
}

func (a *autoScaling) lifecycles() *lifecycles {
	return &lifecycles{autoscaling.New(autoscaling.Options{
		HTTPClient: a, Region: "eu-west-1", BaseEndpoint: aws.String("http://configured.example:4566"), Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(credentials),
	})}
}

// lifecycle is a lifecycle action of the victim.
func lifecycle(transition string) string {
	return event("0", "aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", fmt.Sprintf(
		`{"LifecycleActionToken":"token","AutoScalingGroupName":"group","LifecycleHookName":"hook","EC2InstanceId":%q,"LifecycleTransition":%q}`, victim, transition))
}

func TestALifecycleActionIsCompletedWhenItsNodeIsDrained(t *testing.T) {
	for name, c := range map[string]struct {
		transition string
		before     string // a message that is settled before
		asg        autoScaling
		calls      int
	}{
		"drained":                        {transition: toBeTerminated, calls: 1},
		"drained, and the call fails":    {transition: toBeTerminated, asg: autoScaling{failing: 1, code: "InternalFailure"}, calls: 2},
		"over, for Auto Scaling":         {transition: toBeTerminated, asg: autoScaling{failing: 1, code: "ValidationError"}, calls: 1},
		"drained for a spot notice":      {transition: toBeTerminated, before: spot, calls: 1},
		"the test of a new hook":         {transition: "autoscaling:TEST_NOTIFICATION"},
		"of an instance that is started": {transition: "autoscaling:EC2_INSTANCE_LAUNCHING"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
				d, _ := newHandler(t, cl, s)
				d.drainer.lifecycles = c.asg.lifecycles()
				if c.before != "" {
					settled(t, d, another(c.before))
				}
				body := lifecycle(c.transition)
				settled(t, d, body)
				if len(c.asg.calls) != c.calls {
					t.Fatalf("%d calls, want %d: %v", len(c.asg.calls), c.calls, c.asg.calls)
				}
				for _, call := range c.asg.calls {
					if call.Get("LifecycleActionResult") != "CONTINUE" || call.Get("InstanceId") != victim || call.Get("LifecycleActionToken") != "token" || call.Get("LifecycleHookName") != "hook" || call.Get("AutoScalingGroupName") != "group" {
						t.Errorf("call %v", call)
					}
				}
				if !s.hasDeleted(body) {
					t.Error("the message was not deleted")
				}
				if r, ok := recordOf(cl.node(t, "spot-1")); c.calls > 0 && (!ok || r.State != stateDrained) {
					t.Errorf("record = %+v", r)
				}
			})
		})
	}
}

// While another drain goes on, the message comes again: nobody else would complete the action.
func TestALifecycleActionWaitsForAnotherDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
		d, _ := newHandler(t, cl, s)
		asg := &autoScaling{}
		d.drainer.lifecycles = asg.lifecycles()
		d.handle(t.Context(), message(another(spot)))
		body := lifecycle(toBeTerminated)
		d.handle(t.Context(), message(body))
		if s.hasDeleted(body) || len(asg.calls) > 0 {
			t.Errorf("deleted %t, calls %v, while the node is drained for another notice", s.hasDeleted(body), asg.calls)
		}
		d.drains.Wait()
		settled(t, d, body)
		if !s.hasDeleted(body) || len(asg.calls) != 1 {
			t.Errorf("deleted %t, calls %v, when the node is drained", s.hasDeleted(body), asg.calls)
		}
	})
}
