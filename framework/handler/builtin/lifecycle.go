package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"
)

// lifecycleAction is what Auto Scaling waits for before it terminates an instance.
type lifecycleAction struct {
	Group string `json:"group"`
	Hook  string `json:"hook"`
	Token string `json:"token"`
}

// toBeTerminated is the transition of an instance that is to be terminated. Others, and the test
// notification of a new hook, need no drain.
const toBeTerminated = "autoscaling:EC2_INSTANCE_TERMINATING"

func parseLifecycle(detail json.RawMessage, n *notice) error {
	var d struct {
		Instance   string `json:"EC2InstanceId"`
		Transition string `json:"LifecycleTransition"`
		Group      string `json:"AutoScalingGroupName"`
		Hook       string `json:"LifecycleHookName"`
		Token      string `json:"LifecycleActionToken"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return err
	}
	if d.Transition != toBeTerminated {
		return nil
	}
	n.Action, n.Cause = drain, lifecycleTerminating
	n.Lifecycle = &lifecycleAction{Group: d.Group, Hook: d.Hook, Token: d.Token}
	n.add(d.Instance)
	return nil
}

// lifecycles completes the lifecycle actions of instances.
type lifecycles struct{ api *autoscaling.Client }

// complete lets Auto Scaling terminate an instance. It is no error if Auto Scaling no longer waits
// for it: another replica was faster, or the heartbeat timeout.
func (l *lifecycles) complete(ctx context.Context, instance string, a lifecycleAction) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := l.api.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &a.Group, LifecycleHookName: &a.Hook, LifecycleActionToken: &a.Token,
		InstanceId: &instance, LifecycleActionResult: aws.String("CONTINUE"),
	})
	var refused smithy.APIError
	if errors.As(err, &refused) && refused.ErrorCode() == "ValidationError" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("complete the lifecycle action of %s: %w", instance, err)
	}
	return nil
}
