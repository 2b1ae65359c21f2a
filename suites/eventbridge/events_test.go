package eventbridge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/suites/flags"
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

// usual is how many notice types, the first ones, must arrive if nothing else is wanted. Rules may or may
// not match Auto Scaling's lifecycle actions, and the end of capacity blocks.
const usual = 5

// parseWant reads a list of notice types, or of how their names begin.
func parseWant(list string) ([]history.NoticeType, error) {
	if strings.TrimSpace(list) == "" {
		return history.NoticeTypes()[:usual], nil
	}
	var wanted []history.NoticeType
	for _, word := range flags.Names(list) {
		begin := func(t history.NoticeType) bool { return string(t) == word || strings.HasPrefix(string(t), word+"-") }
		i := slices.IndexFunc(history.NoticeTypes(), begin)
		if i < 0 {
			return nil, fmt.Errorf("%q is no type of notice; they are: %s", word, strings.Join(history.Words(history.NoticeTypes()), ", "))
		}
		for _, t := range history.NoticeTypes() {
			if begin(t) && !slices.Contains(wanted, t) {
				wanted = append(wanted, t)
			}
		}
	}
	return wanted, nil
}

// events are what the rules are judged by, with that time: those of the wanted notices, which must arrive,
// and others, which must not. What handlers differ in is left out: rules may or may not match the state
// running, and health events of other services or categories.
func events(at time.Time, wanted []history.NoticeType) []event {
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
	arriving := map[history.NoticeType][]event{
		history.SpotInterruption: {
			{"spot-interruption-terminate", spot("terminate"), true},
			{"spot-interruption-stop", spot("stop"), true},
			{"spot-interruption-hibernate", spot("hibernate"), true},
		},
		history.RebalanceRecommendation: {{"rebalance-recommendation", notice(history.RebalanceRecommendation, at, nil), true}},
		history.StateChange: {
			{"state-stopping", state("stopping"), true},
			{"state-stopped", state("stopped"), true},
			{"state-shutting-down", state("shutting-down"), true},
			{"state-terminated", state("terminated"), true},
		},
		history.ScheduledChange:                 {{"health-scheduled-change", notice(history.ScheduledChange, at, nil), true}},
		history.CapacityReservationInterruption: {{"capacity-reservation-interruption", notice(history.CapacityReservationInterruption, at, nil), true}},
		history.LifecycleAction:                 {{"lifecycle-action", notice(history.LifecycleAction, at, nil), true}},
		history.CapacityBlockExpiration:         {{"capacity-block-expiration", notice(history.CapacityBlockExpiration, at, nil), true}},
	}
	var all []event
	for _, t := range wanted {
		all = append(all, arriving[t]...)
	}
	return append(all, []event{
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
	}...)
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

// judge compares what got to the queue under the event's id with what should. Silent are the rules that
// were not deployed, with the reasons.
func (e event) judge(id string, arrived []cloud.Envelope, silent string) verdict.Verdict {
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
		if silent != "" {
			v.Got += "; by these rules nothing gets to the queue: " + silent
		}
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
	for _, e := range events(time.Now(), history.NoticeTypes()[:usual]) {
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

func TestWhichNoticesAreWanted(t *testing.T) {
	usually := []history.NoticeType{history.SpotInterruption, history.RebalanceRecommendation, history.StateChange, history.ScheduledChange, history.CapacityReservationInterruption}
	for list, want := range map[string][]history.NoticeType{
		"":                        usually,
		"spot,state-change":       {history.SpotInterruption, history.StateChange},
		"scheduled rebalance":     {history.ScheduledChange, history.RebalanceRecommendation},
		"capacity":                {history.CapacityReservationInterruption, history.CapacityBlockExpiration},
		"capacity-block,capacity": {history.CapacityBlockExpiration, history.CapacityReservationInterruption},
		"lifecycle-action":        {history.LifecycleAction},
		"spots":                   nil,
	} {
		got, err := parseWant(list)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
		if want == nil {
			continue
		}
		for _, e := range events(time.Now(), got) {
			if _, known := strings.CutPrefix(e.name, "rebalance"); known && !slices.Contains(want, history.RebalanceRecommendation) {
				t.Errorf("%q: %s is judged", list, e.name)
			}
		}
	}
}

// What cannot be tested is refused with the reason before LocalStack is started.
func TestWhatIsRefused(t *testing.T) {
	const queue = "Resources: {Q: {Type: AWS::SQS::Queue, Properties: {QueueName: !Sub '${Environment}-q', VisibilityTimeout: 60}}}\n"
	for name, c := range map[string]struct {
		file, text string
		o          options
		want       string
	}{
		"Terraform":                   {"main.tf", "resource \"aws_sqs_queue\" \"q\" {\n}\n", options{}, "main.tf: it is of Terraform"},
		"a parameter without a value": {"p.yaml", "Parameters: {Environment: {Type: String}}\n" + queue, options{}, "PARAMETERS=Environment=VALUE"},
		"a misspelt notice":           {"p.yaml", queue, options{want: "spott"}, `--want: "spott" is no type of notice`},
		"with a value":                {"p.yaml", "Parameters: {Environment: {Type: String}}\n" + queue, options{parameters: map[string]string{"Environment": "prod"}}, ""},
	} {
		c.o.rules = filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(c.o.rules, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := newSuite(c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && (s.template.VisibilityTimeout != time.Minute || troubles(s.template)[1].want != "hidden for 1m0s, and received then") {
			t.Errorf("%s: the wait does not follow the queue: %q", name, troubles(s.template)[1].want)
		}
	}
	if _, err := newSuite(options{rules: "missing.yaml"}); err == nil {
		t.Error("a file that is not there: no error")
	}
	if _, err := newSuite(options{}); err != nil {
		t.Errorf("the stack that drills use: %v", err)
	}
}
