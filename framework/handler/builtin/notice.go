package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/smithy-go"
)

// action is what a notice requires.
type action string

// The closed list of actions.
const (
	ignore   action = "ignore"   // nothing; the message is deleted
	announce action = "announce" // a Kubernetes event on the node
	drain    action = "drain"    // an event, then cordon, taint and evict
)

// cause names what happened, as the reason of Kubernetes events spells it.
type cause string

// The causes that a notice can have. A notice that is ignored has none.
const (
	spotInterrupted                cause = "SpotInterrupted"
	rebalanceRecommended           cause = "RebalanceRecommended"
	instanceStopping               cause = "InstanceStopping"
	instanceTerminating            cause = "InstanceTerminating"
	scheduledChange                cause = "ScheduledChange"
	capacityReservationInterrupted cause = "CapacityReservationInterrupted"
	lifecycleTerminating           cause = "LifecycleTerminating"
	statusImpaired                 cause = "StatusImpaired"
	capacityBlockEnding            cause = "CapacityBlockEnding"
)

// notice is what the handler understood of a message.
type notice struct {
	ID     string // of the EventBridge envelope; may be empty
	Type   string // detail-type, as it came
	Action action
	Cause  cause
	// Instances are the ids of the affected EC2 instances, in order, without duplicates.
	Instances []string
	// Reservation is the capacity reservation that ends, of a notice that names no instance.
	Reservation string
	// Lifecycle is what must be completed when the node is drained; nil if nothing.
	Lifecycle *lifecycleAction
	// Sent is when AWS sent it, by the envelope; zero if that is no time.
	Sent time.Time
}

// joinWithin is how long a notice is kept whose instance is no node: EC2 may announce the
// end of an instance before its node has joined the cluster.
const joinWithin = 30 * time.Second

// early reports whether a node of the notice may still join. A notice without a time, or
// with one in the future, is not kept: it would stay until its retention ends.
func (n notice) early() bool {
	age := time.Since(n.Sent)
	return n.Action == drain && age >= 0 && age < joinWithin
}

// envelope is the part of an EventBridge event that dispatch needs. Its time only describes
// how long to wait for a node: a notice with a wrong time still announces the end of the
// instance.
type envelope struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       string          `json:"time"`
	Detail     json.RawMessage `json:"detail"`

	// Type and Message are of an envelope of SNS, whose message is one of EventBridge or of a hook.
	Type    string `json:"Type"`
	Message string `json:"Message"`
	// Transition, Request and When are of a lifecycle hook that sends to the queue or to SNS itself: the
	// message is what is the detail of EventBridge's event.
	Transition string `json:"LifecycleTransition"`
	Request    string `json:"RequestId"`
	When       string `json:"Time"`
}

// ofHook is a message of a lifecycle hook as EventBridge's event of the same.
func ofHook(e envelope, body string) envelope {
	return envelope{
		Version: "0", ID: e.Request, Source: "aws.autoscaling", DetailType: "EC2 Instance-terminate Lifecycle Action",
		Time: cmp.Or(e.When, e.Time), Detail: json.RawMessage(body),
	}
}

// signature is the exact key of dispatch: the same detail-type may mean something else
// in another version or from another source.
type signature struct{ version, source, detailType string }

// detailParser reads the detail of one kind of event into a notice.
type detailParser func(detail json.RawMessage, n *notice) error

// parserFor is the dispatch table; nil for an event to ignore.
func parserFor(s signature) detailParser {
	switch s {
	case signature{"0", "aws.ec2", "EC2 Spot Instance Interruption Warning"}:
		return parseInstance(drain, spotInterrupted)
	case signature{"0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"}:
		return parseInstance(drain, capacityReservationInterrupted)
	case signature{"0", "aws.ec2", "EC2 Instance Rebalance Recommendation"}:
		return parseInstance(announce, rebalanceRecommended)
	case signature{"0", "aws.ec2", "EC2 Instance State-change Notification"}:
		return parseStateChange
	case signature{"0", "aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"}:
		return parseLifecycle
	case signature{"0", "aws.ec2", "Capacity Block Reservation Expiration Warning"}:
		return parseCapacityBlock
	case signature{"0", "aws.health", "AWS Health Event"}:
		return parseHealth
	}
	return nil
}

// parseNotice reads a message's body. An error means that the body contradicts its own
// envelope, so that reading it again cannot help.
func parseNotice(body string) (notice, error) {
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return notice{}, fmt.Errorf("read the envelope: %w", err)
	}
	switch {
	case e.DetailType == "" && e.Type == "Notification":
		return parseNotice(e.Message)
	case e.DetailType == "" && e.Transition != "":
		e = ofHook(e, body)
	}
	n := notice{ID: e.ID, Type: e.DetailType, Action: ignore}
	n.Sent, _ = time.Parse(time.RFC3339, e.Time)
	parse := parserFor(signature{e.Version, e.Source, e.DetailType})
	if parse == nil {
		return n, nil
	}
	if err := parse(e.Detail, &n); err != nil {
		return notice{}, fmt.Errorf("read the detail of %q: %w", e.DetailType, err)
	}
	if n.Action != ignore && len(n.Instances) == 0 && n.Reservation == "" {
		return notice{}, fmt.Errorf("read the detail of %q: it names no instance", e.DetailType)
	}
	return n, nil
}

func parseInstance(what action, why cause) detailParser {
	return func(detail json.RawMessage, n *notice) error {
		var d struct {
			Instance string `json:"instance-id"`
		}
		if err := json.Unmarshal(detail, &d); err != nil {
			return err
		}
		n.Action, n.Cause = what, why
		n.add(d.Instance)
		return nil
	}
}

// parseCapacityBlock reads the warning 40 minutes before the end of a capacity block. EC2 begins to
// terminate its instances 10 minutes later.
func parseCapacityBlock(detail json.RawMessage, n *notice) error {
	var d struct {
		Reservation string `json:"capacity-reservation-id"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return err
	}
	n.Action, n.Cause, n.Reservation = drain, capacityBlockEnding, d.Reservation
	return nil
}

func parseStateChange(detail json.RawMessage, n *notice) error {
	var d struct {
		Instance string `json:"instance-id"`
		State    string `json:"state"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return err
	}
	switch strings.ToLower(d.State) {
	case "stopping", "stopped":
		n.Cause = instanceStopping
	case "shutting-down", "terminated":
		n.Cause = instanceTerminating
	default: // pending, running: the instance stays
		return nil
	}
	n.Action = drain
	n.add(d.Instance)
	return nil
}

// closed is the statusCode of an AWS Health event whose change is over or was cancelled.
const closed = "closed"

func parseHealth(detail json.RawMessage, n *notice) error {
	var d struct {
		Service  string `json:"service"`
		Category string `json:"eventTypeCategory"`
		Status   string `json:"statusCode"`
		Entities []struct {
			Value string `json:"entityValue"`
		} `json:"affectedEntities"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return err
	}
	if d.Service != "EC2" || d.Category != "scheduledChange" || d.Status == closed {
		return nil
	}
	if len(d.Entities) == 0 { // a public event names none
		return nil
	}
	n.Action, n.Cause = drain, scheduledChange
	for _, entity := range d.Entities {
		n.add(entity.Value)
	}
	return nil
}

func (n *notice) add(instance string) {
	if instance != "" && !slices.Contains(n.Instances, instance) {
		n.Instances = append(n.Instances, instance)
	}
}

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
