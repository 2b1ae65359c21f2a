package cloud

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	testRegion = "ap-northeast-2"
	testQueue  = "http://sqs.ap-northeast-2.localhost.localstack.cloud:4566/000000000000/drill"
)

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestEnvelopesAreWhatAWSSends(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.FixedZone("KST", 9*3600))
	var all []Envelope
	for _, typ := range history.NoticeTypes() {
		envelopes, err := Notice{Type: typ, Instances: []string{"i-0aaa", "i-0bbb"}}.Envelopes(testRegion, at)
		if err != nil {
			t.Fatal(err)
		}
		for i := range envelopes {
			if !uuidPattern.MatchString(envelopes[i].ID) {
				t.Errorf("%s: id %q is no UUID", typ, envelopes[i].ID)
			}
			envelopes[i].ID = "ID"
			if detail := envelopes[i].Detail.(map[string]any); detail["LifecycleActionToken"] != nil {
				if !uuidPattern.MatchString(detail["LifecycleActionToken"].(string)) {
					t.Errorf("%s: token %q is no UUID", typ, detail["LifecycleActionToken"])
				}
				detail["LifecycleActionToken"] = "TOKEN"
			}
		}
		all = append(all, envelopes...)
	}
	got, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "envelopes.json", append(got, '\n'))
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("differs from %s (run with -update to accept):\n%s", file, got)
	}
}

func TestNoticeDetailReplacesAndRemovesFields(t *testing.T) {
	for name, tc := range map[string]struct {
		notice Notice
		want   string // in the body
		absent string
	}{
		"spot that stops": {
			Notice{Type: history.SpotInterruption, Detail: map[string]any{"instance-action": "stop"}},
			`"instance-action":"stop"`, "terminate",
		},
		"state": {
			Notice{Type: history.StateChange, Detail: map[string]any{"state": "terminated"}},
			`"state":"terminated"`, "stopping",
		},
		"health issue": {
			Notice{Type: history.ScheduledChange, Detail: map[string]any{"eventTypeCategory": "issue"}},
			`"eventTypeCategory":"issue"`, "scheduledChange",
		},
		"no instance id": {
			Notice{Type: history.SpotInterruption, Detail: map[string]any{"instance-id": nil}},
			`"detail":{"instance-action":"terminate"}`, "instance-id",
		},
		"a closed change": {
			Notice{Type: history.ScheduledChange, Health: Health{Status: history.HealthClosed}},
			`"statusCode":"closed"`, "upcoming",
		},
		"a change of another service": {
			Notice{Type: history.ScheduledChange, Health: Health{Service: "RDS"}},
			`"service":"RDS"`, "EC2",
		},
		"an update": {
			Notice{Type: history.ScheduledChange, Health: Health{Event: "first"}},
			`"eventArn":"arn:aws:health:ap-northeast-2::event/EC2/AWS_EC2_INSTANCE_STOP_SCHEDULED/AWS_EC2_INSTANCE_STOP_SCHEDULED_first"`, "SCHEDULED_1",
		},
		"a local zone": {
			Notice{Type: history.SpotInterruption, Zone: "us-west-2-lax-1a"},
			`"resources":["arn:aws:ec2:us-west-2-lax-1a:instance/i-0aaa"]`, "ap-northeast-2a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.notice.Instances = []string{"i-0aaa"}
			envelopes, err := tc.notice.Envelopes(testRegion, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			body, err := envelopes[0].Body()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(body, tc.want) || strings.Contains(body, tc.absent) {
				t.Errorf("want %s and no %s in %s", tc.want, tc.absent, body)
			}
		})
	}
}

func TestTheTimesOfANotice(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	envelopes, err := Notice{
		Type: history.ScheduledChange, Instances: []string{"i-0aaa"}, Age: 90 * time.Second, Health: Health{StartsIn: 72 * time.Hour},
	}.Envelopes(testRegion, at)
	if err != nil {
		t.Fatal(err)
	}
	detail := envelopes[0].Detail.(map[string]any)
	if sent, start := envelopes[0].Time, detail["startTime"]; sent != "2026-03-04T05:04:37Z" || start != "Sat, 07 Mar 2026 05:04:37 GMT" {
		t.Errorf("sent at %s, starts at %s", sent, start)
	}
}

func TestForeignEntitiesComeFirst(t *testing.T) {
	envelopes, err := Notice{Type: history.ScheduledChange, Instances: []string{"i-0aaa"}, Health: Health{Foreign: 2}}.Envelopes(testRegion, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ids := envelopes[0].Resources
	if len(ids) != 3 || ids[2] != "i-0aaa" || ids[0] == ids[1] || !regexp.MustCompile(`^i-[0-9a-f]{17}$`).MatchString(ids[0]) {
		t.Errorf("the event is about %q", ids)
	}
}

func TestAHealthEventCanAffectNothing(t *testing.T) {
	envelopes, err := Notice{Type: history.ScheduledChange, Health: Health{NoEntities: true}}.Envelopes(testRegion, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	body, err := envelopes[0].Body()
	if err != nil || strings.Contains(body, "affectedEntities") || !strings.Contains(body, `"eventScopeCode":"PUBLIC"`) || !strings.Contains(body, `"resources":[]`) {
		t.Errorf("%v: %s", err, body)
	}
}

func TestEnvelopeCanBeMadeWrong(t *testing.T) {
	envelopes, err := Notice{Type: history.SpotInterruption, Instances: []string{"i-0aaa"}}.Envelopes(testRegion, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := envelopes[0]
	e.Version, e.Source, e.DetailType, e.Time, e.Detail = "1", "", "Something Else", "yesterday", "no object"
	body, err := e.Body()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"version":"1"`, `"source":""`, `"detail-type":"Something Else"`, `"time":"yesterday"`, `"detail":"no object"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestNoticeRefused(t *testing.T) {
	for name, n := range map[string]Notice{
		"unknown type": {Type: "spot", Instances: []string{"i-0aaa"}},
		"no instance":  {Type: history.SpotInterruption},
	} {
		if _, err := n.Envelopes(testRegion, time.Now()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestEveryTypeHasARule(t *testing.T) {
	for _, typ := range history.NoticeTypes() {
		source, detailType := pattern(typ)
		rule := `EventPattern: {source: [` + source + `], detail-type: ["` + detailType + `"]}`
		if strings.Count(stackTemplate, rule) != 1 {
			t.Errorf("%s: want one rule %s in the stack", typ, rule)
		}
	}
	if n := strings.Count(stackTemplate, "AWS::Events::Rule"); n != len(history.NoticeTypes()) {
		t.Errorf("the stack has %d rules for %d types", n, len(history.NoticeTypes()))
	}
}
