package builtin

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

const victim = "i-0123456789abcdef0"

// event is an EventBridge envelope around a detail.
func event(version, source, detailType, detail string) string {
	return fmt.Sprintf(`{"version":%q,"id":"notice-1","source":%q,"detail-type":%q,"time":"2026-01-01T00:00:00Z","region":"eu-west-1","resources":[],"detail":%s}`,
		version, source, detailType, detail)
}

func ec2(detailType, detail string) string { return event("0", "aws.ec2", detailType, detail) }

func state(s string) string {
	return ec2("EC2 Instance State-change Notification", fmt.Sprintf(`{"instance-id":%q,"state":%q}`, victim, s))
}

func health(service, category, entities string) string {
	return event("0", "aws.health", "AWS Health Event", fmt.Sprintf(`{"service":%q,"eventTypeCategory":%q,"affectedEntities":%s}`, service, category, entities))
}

// another is the same event under an id of its own.
func another(body string) string { return strings.Replace(body, "notice-1", "notice-2", 1) }

const (
	spotType = "EC2 Spot Instance Interruption Warning"
	one      = `{"instance-id":"` + victim + `","instance-action":"terminate"}`
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		body      string
		action    action
		cause     cause
		instances []string
	}{
		"a spot notice drains":                   {ec2(spotType, one), drain, spotInterrupted, []string{victim}},
		"a capacity reservation notice drains":   {ec2("EC2 Capacity Reservation Instance Interruption Warning", one), drain, capacityReservationInterrupted, []string{victim}},
		"a rebalance recommendation is reported": {ec2("EC2 Instance Rebalance Recommendation", one), announce, rebalanceRecommended, []string{victim}},
		"state stopping drains":                  {state("stopping"), drain, instanceStopping, []string{victim}},
		"state stopped drains":                   {state("stopped"), drain, instanceStopping, []string{victim}},
		"state shutting-down drains":             {state("shutting-down"), drain, instanceTerminating, []string{victim}},
		"state terminated drains":                {state("terminated"), drain, instanceTerminating, []string{victim}},
		"a state's case does not matter":         {state("STOPPING"), drain, instanceStopping, []string{victim}},
		"state pending is ignored":               {state("pending"), ignore, "", nil},
		"state running is ignored":               {state("running"), ignore, "", nil},
		"an empty state is ignored":              {state(""), ignore, "", nil},
		"a part of a state's name is ignored":    {state("stop"), ignore, "", nil},
		"a scheduled change drains all entities": {health("EC2", "scheduledChange", `[{"entityValue":"i-1"},{"entityValue":"i-2"},{"entityValue":"i-1"}]`), drain, scheduledChange, []string{"i-1", "i-2"}},
		"a health issue is ignored":              {health("EC2", "issue", `[{"entityValue":"i-1"}]`), ignore, "", nil},
		"another service's change is ignored":    {health("RDS", "scheduledChange", `[{"entityValue":"i-1"}]`), ignore, "", nil},
		"a closed change is ignored":             {strings.Replace(health("EC2", "scheduledChange", `[{"entityValue":"i-1"}]`), `"service"`, `"statusCode":"closed","service"`, 1), ignore, "", nil},
		"an upcoming change drains":              {strings.Replace(health("EC2", "scheduledChange", `[{"entityValue":"i-1"}]`), `"service"`, `"statusCode":"upcoming","service"`, 1), drain, scheduledChange, []string{"i-1"}},
		"a change of nothing is ignored":         {health("EC2", "scheduledChange", `[]`), ignore, "", nil},
		"an unknown detail-type is ignored":      {ec2("EC2 Something Else", one), ignore, "", nil},
		"a detail-type of another case is":       {ec2("ec2 spot instance interruption warning", one), ignore, "", nil},
		"an unknown version is ignored":          {event("1", "aws.ec2", spotType, one), ignore, "", nil},
		"an unknown source is ignored":           {event("0", "my.app", spotType, one), ignore, "", nil},
		"an empty object is ignored":             {`{}`, ignore, "", nil},
		"a detail of unknown type is not read":   {ec2("EC2 Something Else", `"text"`), ignore, "", nil},
		"an odd time does not hide a spot notice": {
			`{"version":"0","source":"aws.ec2","time":"yesterday","detail-type":"` + spotType + `","detail":` + one + `}`, drain, spotInterrupted, []string{victim},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := parseNotice(c.body)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if n.Action != c.action || n.Cause != c.cause || !slices.Equal(n.Instances, c.instances) {
				t.Errorf("got %s %q %v, want %s %q %v", n.Action, n.Cause, n.Instances, c.action, c.cause, c.instances)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"an empty body":              {``, `read the envelope: unexpected end of JSON input`},
		"text":                       {`this is { not JSON`, `read the envelope: invalid character 'h' in literal true (expecting 'r')`},
		"an array":                   {`[]`, `read the envelope: json: cannot unmarshal array into Go value of type builtin.envelope`},
		"a detail that is no object": {ec2(spotType, `"text"`), `read the detail of "EC2 Spot Instance Interruption Warning": json: cannot unmarshal string into Go value of type struct { Instance string "json:\"instance-id\"" }`},
		"a missing instance":         {ec2(spotType, `{}`), `read the detail of "EC2 Spot Instance Interruption Warning": it names no instance`},
		"a null detail":              {ec2(spotType, `null`), `read the detail of "EC2 Spot Instance Interruption Warning": it names no instance`},
		"an entity without a value":  {health("EC2", "scheduledChange", `[{}]`), `read the detail of "AWS Health Event": it names no instance`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseNotice(c.body)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// FuzzParse holds for any body: no panic, and a notice that calls for action
// shows why and names at least one instance, each once.
func FuzzParse(f *testing.F) {
	for _, body := range []string{``, `{}`, `null`, ec2(spotType, one), state("stopping"), state("running"), health("EC2", "scheduledChange", `[{"entityValue":"i-1"}]`)} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		n, err := parseNotice(body)
		if err != nil {
			return
		}
		switch n.Action {
		case ignore:
			if len(n.Instances) != 0 || n.Cause != "" {
				t.Errorf("an ignored notice has cause %q and instances %v", n.Cause, n.Instances)
			}
		case announce, drain:
			if n.Cause == "" || len(n.Instances) == 0 || slices.Contains(n.Instances, "") {
				t.Errorf("a notice to %s has cause %q and instances %q", n.Action, n.Cause, n.Instances)
			}
			seen := map[string]bool{}
			for _, id := range n.Instances {
				if seen[id] {
					t.Errorf("instance %s is named twice", id)
				}
				seen[id] = true
			}
		default:
			t.Errorf("action %q is none of the closed list", n.Action)
		}
	})
}

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

// A hook of an Auto Scaling group may send to the queue itself, or to a topic of SNS.
func TestANoticeInAFormOfItsOwn(t *testing.T) {
	hook := fmt.Sprintf(`{"LifecycleHookName":"drain","RequestId":"r-1","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING","AutoScalingGroupName":"nodes","Service":"AWS Auto Scaling","Time":"2026-01-01T00:00:00.000Z","EC2InstanceId":%q,"LifecycleActionToken":"t"}`, victim)
	topic := func(message string) string {
		return fmt.Sprintf(`{"Type":"Notification","MessageId":"m-1","TopicArn":"arn:aws:sns:us-east-1:000000000000:ends","Message":%q,"Timestamp":"2026-01-01T00:00:00.000Z"}`, message)
	}
	for name, c := range map[string]struct {
		body      string
		want      action
		instances int
	}{
		"a hook's own":                  {hook, drain, 1},
		"a hook's, by way of a topic":   {topic(hook), drain, 1},
		"EventBridge's, by a topic":     {topic(spot), drain, 1},
		"the test of a new hook":        {`{"AccountId":"000000000000","RequestId":"1","Service":"AWS Auto Scaling","Event":"autoscaling:TEST_NOTIFICATION"}`, ignore, 0},
		"a hook's, of a launch":         {strings.ReplaceAll(hook, "TERMINATING", "LAUNCHING"), ignore, 0},
		"something else, by way of one": {topic(`{"hello":"world"}`), ignore, 0},
	} {
		n, err := parseNotice(c.body)
		if err != nil || n.Action != c.want || len(n.Instances) != c.instances {
			t.Errorf("%s: %+v, error %v", name, n, err)
		}
	}
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
