package eventbridge

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/kind"
)

// instance is one that no cluster has: rules do not look at it.
const instance = "i-0123456789abcdef0"

// event is an event of AWS, or one that resembles it, and whether it must arrive at a
// queue of interruption notices.
type event struct {
	name     string
	envelope cloud.Envelope
	arrives  bool
}

// events are what the rules are judged by, with that time. What handlers differ in is
// left out: rules may or may not match the state running, health events of other
// services or categories, Auto Scaling's lifecycle actions, and the end of capacity blocks.
func events(at time.Time) []event {
	spot := func(action string) cloud.Envelope {
		return notice(history.SpotInterruption, at, map[string]any{"instance-action": action})
	}
	state := func(s string) cloud.Envelope { return notice(history.StateChange, at, map[string]any{"state": s}) }
	// other is a spot notice under another source or type.
	other := func(source, detailType string) cloud.Envelope {
		e := spot("terminate")
		e.Source, e.DetailType = source, detailType
		return e
	}
	const (
		spotType   = "EC2 Spot Instance Interruption Warning"
		healthType = "AWS Health Event"
	)
	return []event{
		{"spot-interruption-terminate", spot("terminate"), true},
		{"spot-interruption-stop", spot("stop"), true},
		{"spot-interruption-hibernate", spot("hibernate"), true},
		{"rebalance-recommendation", notice(history.RebalanceRecommendation, at, nil), true},
		{"state-stopping", state("stopping"), true},
		{"state-stopped", state("stopped"), true},
		{"state-shutting-down", state("shutting-down"), true},
		{"state-terminated", state("terminated"), true},
		{"health-scheduled-change", notice(history.ScheduledChange, at, nil), true},
		{"capacity-reservation-interruption", notice(history.CapacityReservationInterruption, at, nil), true},

		{"another-event-of-ec2", other("aws.ec2", "EBS Volume Notification"), false},
		{"spot-notice-of-an-application", other("com.example.app", spotType), false},
		{"spot-notice-of-health", other("aws.health", spotType), false},
		{"health-event-of-ec2", other("aws.ec2", healthType), false},
		{"source-with-a-suffix", other("aws.ec2.test", spotType), false},
		{"type-in-lower-case", other("aws.ec2", "ec2 spot instance interruption warning"), false},
		{"type-with-a-suffix", other("aws.ec2", spotType+" (test)"), false},
		{"spot-fleet-change", other("aws.ec2spotfleet", "EC2 Spot Fleet Instance Change"), false},
		{"health-abuse-event", other("aws.health", "AWS Health Abuse Event"), false},
		{"auto-scaling-launch", other("aws.autoscaling", "EC2 Instance Launch Successful"), false},
	}
}

// labels are what --ginkgo.label-filter selects the event's spec by.
func (e event) labels() []string {
	fate := "dropped"
	if e.arrives {
		fate = "arrives"
	}
	return []string{"profile:" + profile, "event:" + e.name, fate}
}

// notice is the event of a notice about the one instance.
func notice(t history.NoticeType, at time.Time, detail map[string]any) cloud.Envelope {
	envelopes, err := cloud.Notice{Type: t, Instances: []string{instance}, Detail: detail}.Envelopes(kind.Region, at)
	if err != nil {
		panic(fmt.Sprintf("notice %s: %v", t, err)) // a type that is not on its own list
	}
	return envelopes[0]
}

func (e event) title() string {
	of := fmt.Sprintf("%q of %s", e.envelope.DetailType, e.envelope.Source)
	if e.arrives {
		return of + " gets to the queue"
	}
	return of + " does not get to the queue"
}

// judge compares what got to the queue under the event's id with what should.
func (e event) judge(id string, arrived []cloud.Envelope) verdict.Verdict {
	v := verdict.New(verdict.Arrival, "nothing")
	v.Outcome, v.Got, v.Numbers = verdict.Pass, "nothing", map[string]float64{"messages": float64(len(arrived))}
	if e.arrives {
		v.Want = fmt.Sprintf("one message: %q of %s, its detail unchanged", e.envelope.DetailType, e.envelope.Source)
	}
	switch {
	case id == "":
		v.Outcome, v.Got = verdict.Unknown, "it was never put"
	case !e.arrives && len(arrived) > 0:
		v.Outcome, v.Got = verdict.Fail, fmt.Sprintf("%d messages", len(arrived))
	case !e.arrives:
	case len(arrived) == 0:
		v.Outcome = verdict.Fail
	case len(arrived) > 1:
		v.Outcome, v.Got = verdict.Fail, fmt.Sprintf("%d messages: more than one rule matches", len(arrived))
	case !same(arrived[0], e.envelope):
		v.Outcome, v.Got = verdict.Fail, fmt.Sprintf("one message: %q of %s, detail %v", arrived[0].DetailType, arrived[0].Source, arrived[0].Detail)
	default:
		v.Got = "one message"
	}
	return v
}

// same compares source, type and detail, as JSON writes it: keys sorted.
func same(a, b cloud.Envelope) bool {
	text := func(detail any) string {
		out, err := json.Marshal(detail)
		if err != nil {
			return err.Error()
		}
		return string(out)
	}
	return a.Source == b.Source && a.DetailType == b.DetailType && text(a.Detail) == text(b.Detail)
}

// parse reads a message. One that is not an envelope, such as the output of an input
// transformer, has no id, and so is none of the events.
func parse(body string) cloud.Envelope {
	var e cloud.Envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return cloud.Envelope{}
	}
	return e
}

func TestEveryEventHasValidLabels(t *testing.T) {
	counts := map[string]int{}
	for _, e := range events(time.Now()) {
		for _, label := range e.labels() {
			if clean, err := types.ValidateAndCleanupLabel(label, types.CodeLocation{}); err != nil || clean != label {
				t.Errorf("%s: label %q: %v", e.name, label, err)
			}
			counts[label]++
		}
	}
	if counts["arrives"] != 10 || counts["dropped"] != 10 {
		t.Errorf("%d events arrive and %d are dropped, want 10 and 10", counts["arrives"], counts["dropped"])
	}
}
