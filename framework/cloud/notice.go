package cloud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Account is the account that everything is in: LocalStack's own.
const Account = "000000000000"

// warning is how long before the end AWS gives its notice.
const warning = 2 * time.Minute

// Notice is a notice of AWS about one or more instances. A scheduled change names all
// of them in one event; every other type has one event for each instance.
type Notice struct {
	Type      history.NoticeType
	Instances []string // instance ids, at least one
	Action    string   // of an interruption: terminate, stop or hibernate; empty: terminate
	State     string   // of a state change: the new state; empty: stopping
	// Detail replaces fields of the event's detail by name, for instance
	// instance-action, state or eventTypeCategory; nil removes the field.
	Detail map[string]any
}

// Envelope is an EventBridge event as it arrives in the queue. To make an invalid
// message, change any field before calling Body.
type Envelope struct {
	Version    string   `json:"version"`
	ID         string   `json:"id"`
	DetailType string   `json:"detail-type"`
	Source     string   `json:"source"`
	Account    string   `json:"account"`
	Time       string   `json:"time"` // RFC 3339, whole seconds
	Region     string   `json:"region"`
	Resources  []string `json:"resources"`
	Detail     any      `json:"detail"`
}

// Body is the envelope as the text of an SQS message.
func (e Envelope) Body() (string, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode envelope %s: %w", e.DetailType, err)
	}
	return string(b), nil
}

// Envelopes returns the events of the notice, sent at that time, each with its own id.
// An unknown type or a notice without instances is an error.
func (n Notice) Envelopes(region string, at time.Time) ([]Envelope, error) {
	if !slices.Contains(history.NoticeTypes(), n.Type) {
		return nil, fmt.Errorf("unknown notice type %q, allowed: %q", n.Type, history.NoticeTypes())
	}
	if len(n.Instances) == 0 {
		return nil, fmt.Errorf("notice %s names no instance", n.Type)
	}
	at = at.UTC().Truncate(time.Second)
	if n.Type == history.ScheduledChange {
		return []Envelope{n.envelope(region, at, scheduledChange(region, at, n.Instances), n.Instances)}, nil
	}
	envelopes := make([]Envelope, len(n.Instances))
	for i, id := range n.Instances {
		detail, arn := n.ofInstance(region, at, id)
		envelopes[i] = n.envelope(region, at, detail, []string{arn})
	}
	return envelopes, nil
}

func (n Notice) envelope(region string, at time.Time, detail map[string]any, resources []string) Envelope {
	maps.Copy(detail, n.Detail)
	maps.DeleteFunc(detail, func(_ string, v any) bool { return v == nil })
	source, detailType := pattern(n.Type)
	return Envelope{
		Version: "0", ID: uuid.NewString(), DetailType: detailType, Source: source, Account: Account,
		Time: at.Format(time.RFC3339), Region: region, Resources: resources, Detail: detail,
	}
}

// pattern is what the rules of the stack match for a notice type.
func pattern(t history.NoticeType) (source, detailType string) {
	switch t {
	case history.SpotInterruption:
		return "aws.ec2", "EC2 Spot Instance Interruption Warning"
	case history.RebalanceRecommendation:
		return "aws.ec2", "EC2 Instance Rebalance Recommendation"
	case history.StateChange:
		return "aws.ec2", "EC2 Instance State-change Notification"
	case history.ScheduledChange:
		return "aws.health", "AWS Health Event"
	case history.CapacityReservationInterruption:
		return "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"
	}
	return "", ""
}

// ofInstance is the detail and the ARN of an event about a single instance.
func (n Notice) ofInstance(region string, at time.Time, id string) (detail map[string]any, arn string) {
	detail = map[string]any{"instance-id": id}
	arn = fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", region, Account, id)
	switch n.Type {
	case history.SpotInterruption:
		detail["instance-action"] = cmp.Or(n.Action, "terminate")
		// AWS names the zone and no account in these two.
		arn = fmt.Sprintf("arn:aws:ec2:%s:instance/%s", zoneOf(region), id)
	case history.RebalanceRecommendation:
		arn = fmt.Sprintf("arn:aws:ec2:%s:instance/%s", zoneOf(region), id)
	case history.StateChange:
		detail["state"] = cmp.Or(n.State, "stopping")
	case history.CapacityReservationInterruption:
		detail["instance-action"] = cmp.Or(n.Action, "terminate")
		detail["instance-termination-time"] = at.Add(warning).Format(time.RFC3339)
	}
	return detail, arn
}

// scheduledChange is the detail of a health event about all these instances.
func scheduledChange(region string, at time.Time, ids []string) map[string]any {
	const code = "AWS_EC2_INSTANCE_STOP_SCHEDULED"
	entities := make([]any, len(ids))
	for i, id := range ids {
		entities[i] = map[string]any{"entityValue": id}
	}
	return map[string]any{
		"eventArn":          fmt.Sprintf("arn:aws:health:%s::event/EC2/%s/%s_%d", region, code, code, at.Unix()),
		"service":           "EC2",
		"eventScopeCode":    "ACCOUNT_SPECIFIC",
		"eventTypeCode":     code,
		"eventTypeCategory": "scheduledChange",
		"startTime":         at.Add(warning).Format(http.TimeFormat),
		"eventDescription":  []any{map[string]any{"language": "en_US", "latestDescription": "The instance is scheduled to stop."}},
		"affectedEntities":  entities,
	}
}
