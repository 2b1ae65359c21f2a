package builtin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Action is what a notice calls for.
type Action string

// The closed list of actions.
const (
	Ignore Action = "ignore" // nothing; the message is deleted
	Tell   Action = "tell"   // a Kubernetes event on the node
	Drain  Action = "drain"  // an event, then cordon, taint and evict
)

// Cause names what happened, as the reason of Kubernetes events spells it.
type Cause string

// The causes that a notice can have. A notice that is ignored has none.
const (
	SpotInterrupted                Cause = "SpotInterrupted"
	RebalanceRecommended           Cause = "RebalanceRecommended"
	InstanceStopping               Cause = "InstanceStopping"
	InstanceTerminating            Cause = "InstanceTerminating"
	ScheduledChange                Cause = "ScheduledChange"
	CapacityReservationInterrupted Cause = "CapacityReservationInterrupted"
)

// Notice is what the handler understood of a message.
type Notice struct {
	ID     string // of the EventBridge envelope; may be empty
	Type   string // detail-type, as it came
	Action Action
	Cause  Cause
	// Instances are the EC2 instance ids concerned, each once, in their order.
	Instances []string
}

// envelope is the part of an EventBridge event that dispatch needs. Its time is
// left alone: a notice with an odd clock still takes the instance.
type envelope struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Detail     json.RawMessage `json:"detail"`
}

// signature is the exact key of dispatch: a version or source that we do not
// know may mean something else by the same detail-type.
type signature struct{ version, source, detailType string }

// detailParser reads the detail of one kind of event into a notice.
type detailParser func(detail json.RawMessage, n *Notice) error

// parserFor is the dispatch table; nil for an event that means nothing to us.
func parserFor(s signature) detailParser {
	switch s {
	case signature{"0", "aws.ec2", "EC2 Spot Instance Interruption Warning"}:
		return parseInstance(Drain, SpotInterrupted)
	case signature{"0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"}:
		return parseInstance(Drain, CapacityReservationInterrupted)
	case signature{"0", "aws.ec2", "EC2 Instance Rebalance Recommendation"}:
		return parseInstance(Tell, RebalanceRecommended)
	case signature{"0", "aws.ec2", "EC2 Instance State-change Notification"}:
		return parseStateChange
	case signature{"0", "aws.health", "AWS Health Event"}:
		return parseHealth
	}
	return nil
}

// Parse reads a message's body. An error means that the body is not what its
// own envelope says it is, so that reading it again cannot help.
func Parse(body string) (Notice, error) {
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return Notice{}, fmt.Errorf("read the envelope: %w", err)
	}
	n := Notice{ID: e.ID, Type: e.DetailType, Action: Ignore}
	parse := parserFor(signature{e.Version, e.Source, e.DetailType})
	if parse == nil {
		return n, nil
	}
	if err := parse(e.Detail, &n); err != nil {
		return Notice{}, fmt.Errorf("read the detail of %q: %w", e.DetailType, err)
	}
	if n.Action != Ignore && len(n.Instances) == 0 {
		return Notice{}, fmt.Errorf("read the detail of %q: it names no instance", e.DetailType)
	}
	return n, nil
}

func parseInstance(action Action, cause Cause) detailParser {
	return func(detail json.RawMessage, n *Notice) error {
		var d struct {
			Instance string `json:"instance-id"`
		}
		if err := json.Unmarshal(detail, &d); err != nil {
			return err
		}
		n.Action, n.Cause = action, cause
		n.add(d.Instance)
		return nil
	}
}

func parseStateChange(detail json.RawMessage, n *Notice) error {
	var d struct {
		Instance string `json:"instance-id"`
		State    string `json:"state"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return err
	}
	switch strings.ToLower(d.State) {
	case "stopping", "stopped":
		n.Cause = InstanceStopping
	case "shutting-down", "terminated":
		n.Cause = InstanceTerminating
	default: // pending, running: the instance is here to stay
		return nil
	}
	n.Action = Drain
	n.add(d.Instance)
	return nil
}

func parseHealth(detail json.RawMessage, n *Notice) error {
	var d struct {
		Service  string `json:"service"`
		Category string `json:"eventTypeCategory"`
		Entities []struct {
			Value string `json:"entityValue"`
		} `json:"affectedEntities"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return err
	}
	if d.Service != "EC2" || d.Category != "scheduledChange" {
		return nil
	}
	n.Action, n.Cause = Drain, ScheduledChange
	for _, entity := range d.Entities {
		n.add(entity.Value)
	}
	return nil
}

func (n *Notice) add(instance string) {
	if instance != "" && !slices.Contains(n.Instances, instance) {
		n.Instances = append(n.Instances, instance)
	}
}
