package cloud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Account is the account that everything is in unless In chooses another: LocalStack's own.
const Account = "000000000000"

// warning is how long before the end AWS gives its notice.
const warning = 2 * time.Minute

// blockWarning is how long before the end of a capacity block AWS gives its notice. Its instances begin
// to end 30 minutes before.
const blockWarning = 40 * time.Minute

// Notice is a notice of AWS about one or more instances. A scheduled change names all
// of them in one event; every other type has one event for each instance.
type Notice struct {
	Type      history.NoticeType
	Instances []string // instance ids, at least one
	Action    string   // of an interruption: terminate, stop or hibernate; empty: terminate
	State     string   // of a state change: the new state; empty: stopping
	// Age is how long before it is sent the notice reports that it was sent.
	Age time.Duration
	// Zone is the zone in the ARN of a spot interruption or rebalance recommendation; empty:
	// the region's first.
	Zone   string
	Health Health // of a scheduled change
	// Reservation is what a capacity block expiration names; empty: one that is named after the
	// instance.
	Reservation string
	// Detail replaces fields of the event's detail by name, for instance
	// instance-action, state or eventTypeCategory; nil removes the field.
	Detail map[string]any
}

// Health are fields of an AWS Health event:
// https://docs.aws.amazon.com/health/latest/ug/aws-health-events-eventbridge-schema.html
type Health struct {
	// Service is the AWS service that the event is about; empty: EC2.
	Service string
	// Status is how far the change is; empty: upcoming.
	Status history.HealthStatus
	// StartsIn is the time until the change starts; 0: two minutes.
	StartsIn time.Duration
	// Foreign is how many instances that nobody has started come before the notice's own.
	Foreign int
	// NoEntities leaves out what the event affects. The notice then needs no instances.
	NoEntities bool
	// Event distinguishes the eventArn from that of other events; empty: the time does. All
	// messages about one event have the same eventArn.
	Event string
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
	if len(n.Instances) == 0 && !n.Health.NoEntities {
		return nil, fmt.Errorf("notice %s names no instance", n.Type)
	}
	at = at.Add(-n.Age).UTC().Truncate(time.Second)
	if n.Type == history.ScheduledChange {
		entities := n.entities()
		return []Envelope{n.envelope(region, at, n.Health.detail(region, at, entities), entities)}, nil
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
	p := map[history.NoticeType][2]string{
		history.SpotInterruption:                {"aws.ec2", "EC2 Spot Instance Interruption Warning"},
		history.RebalanceRecommendation:         {"aws.ec2", "EC2 Instance Rebalance Recommendation"},
		history.StateChange:                     {"aws.ec2", "EC2 Instance State-change Notification"},
		history.ScheduledChange:                 {"aws.health", "AWS Health Event"},
		history.CapacityReservationInterruption: {"aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"},
		history.LifecycleAction:                 {"aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"},
		history.CapacityBlockExpiration:         {"aws.ec2", "Capacity Block Reservation Expiration Warning"},
	}[t]
	return p[0], p[1]
}

// ofInstance is the detail and the ARN of an event about a single instance.
func (n Notice) ofInstance(region string, at time.Time, id string) (detail map[string]any, arn string) {
	detail = map[string]any{"instance-id": id}
	arn = fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", region, Account, id)
	switch n.Type {
	case history.SpotInterruption:
		detail["instance-action"] = cmp.Or(n.Action, "terminate")
		// AWS names the zone and no account in these two.
		arn = fmt.Sprintf("arn:aws:ec2:%s:instance/%s", cmp.Or(n.Zone, zoneOf(region)), id)
	case history.RebalanceRecommendation:
		arn = fmt.Sprintf("arn:aws:ec2:%s:instance/%s", cmp.Or(n.Zone, zoneOf(region)), id)
	case history.StateChange:
		detail["state"] = cmp.Or(n.State, "stopping")
	case history.CapacityReservationInterruption:
		detail["instance-action"] = cmp.Or(n.Action, "terminate")
		detail["instance-termination-time"] = at.Add(warning).Format(time.RFC3339)
	case history.LifecycleAction:
		detail = lifecycleDetail(id)
		arn = fmt.Sprintf("arn:aws:autoscaling:%s:%s:autoScalingGroup:%s:autoScalingGroupName/%s", region, Account, autoScalingGroupID, autoScalingGroup)
	case history.CapacityBlockExpiration:
		// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-monitor.html
		reservation := cmp.Or(n.Reservation, "cr-"+strings.TrimPrefix(id, "i-"))
		detail = map[string]any{"capacity-reservation-id": reservation, "end-date": at.Add(blockWarning).Format(time.RFC3339)}
		arn = fmt.Sprintf("arn:aws:ec2:%s:%s:capacity-reservation/%s", region, Account, reservation)
	}
	return detail, arn
}

// The Auto Scaling group that the lifecycle actions of drills name. There is none.
const (
	autoScalingGroup   = "spotdrill"
	autoScalingGroupID = "a5a8ac31-6d1d-4d9b-a7a4-1d7f0f6f4c1e"
)

// lifecycleDetail is the detail of the lifecycle action before an instance is terminated:
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-event-reference.html
func lifecycleDetail(instance string) map[string]any {
	return map[string]any{
		"LifecycleActionToken": uuid.NewString(), "AutoScalingGroupName": autoScalingGroup, "LifecycleHookName": "spotdrill-termination",
		"EC2InstanceId": instance, "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
		"NotificationMetadata": "", "Origin": "AutoScalingGroup", "Destination": "EC2",
	}
}

// entities are what a health event of the notice affects, in their order.
func (n Notice) entities() []string {
	entities := make([]string, 0, n.Health.Foreign+len(n.Instances))
	for range n.Health.Foreign {
		entities = append(entities, "i-0"+strings.ReplaceAll(uuid.NewString(), "-", "")[:16])
	}
	return append(entities, n.Instances...)
}

// detail is the detail of a health event that affects these entities.
func (h Health) detail(region string, at time.Time, affected []string) map[string]any {
	service, description, scope := cmp.Or(h.Service, "EC2"), "INSTANCE_STOP_SCHEDULED", "ACCOUNT_SPECIFIC"
	if service != "EC2" {
		description = "MAINTENANCE_SCHEDULED"
	}
	if h.NoEntities {
		scope = "PUBLIC"
	}
	code := "AWS_" + service + "_" + description
	entities := make([]any, len(affected))
	for i, id := range affected {
		entities[i] = map[string]any{"entityValue": id}
	}
	detail := map[string]any{
		"eventArn":          fmt.Sprintf("arn:aws:health:%s::event/%s/%s/%s_%s", region, service, code, code, cmp.Or(h.Event, strconv.FormatInt(at.Unix(), 10))),
		"service":           service,
		"eventScopeCode":    scope,
		"eventTypeCode":     code,
		"eventTypeCategory": "scheduledChange",
		"statusCode":        string(cmp.Or(h.Status, history.HealthUpcoming)),
		"startTime":         at.Add(cmp.Or(h.StartsIn, warning)).Format(http.TimeFormat),
		"eventDescription":  []any{map[string]any{"language": "en_US", "latestDescription": "The instance is scheduled to stop."}},
	}
	if !h.NoEntities {
		detail["affectedEntities"] = entities
	}
	return detail
}
