// Package imds is a stand-in for the instance metadata service of EC2, version 2, as far as
// interruption handlers read it: sessions, what an instance is, and what is announced for it.
//
// One runs on each node, in the node's own network, at the address of the real one. Real are the
// address, the protocol, and that only its own node reaches it. Emulated are the instance, and the
// hop limit: nothing is routed between a pod and its node's service here, so a request from
// another network namespace counts as one hop more.
package imds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Address is where the service is, on every node.
const Address = "169.254.169.254"

// Instance is what the metadata reports of an instance.
type Instance struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Zone   string `json:"zone"`
	Region string `json:"region"`
	// LifeCycle is spot or on-demand.
	LifeCycle string `json:"lifeCycle"`
	// Hostname and IP are those in its VPC.
	Hostname string `json:"hostname"`
	IP       string `json:"ip"`
	Account  string `json:"account"`
	// AccessKey is the id of the credentials of its role; LocalStack accepts any secret.
	AccessKey string `json:"accessKey"`
}

// role is the name of the role of every instance, and credentialsFor how long its credentials are good.
const (
	role           = "spotdrill-node"
	credentialsFor = 6 * time.Hour
)

// Announced is what is announced for an instance; by default nothing.
type Announced struct {
	// Spot is the interruption of a spot instance.
	Spot *SpotAction `json:"spot,omitempty"`
	// Rebalance is when a rebalance of the instance was recommended; nil if it was not.
	Rebalance *time.Time `json:"rebalance,omitempty"`
	// Scheduled are the maintenance events that are not over.
	Scheduled []ScheduledEvent `json:"scheduled,omitempty"`
}

// SpotAction is an announced interruption.
type SpotAction struct {
	// Action is terminate, stop or hibernate.
	Action string    `json:"action"`
	Time   time.Time `json:"time"`
}

// ScheduledEvent is a maintenance event.
type ScheduledEvent struct {
	ID string `json:"id"`
	// Code is one that EC2 documents, such as instance-retirement.
	Code      string    `json:"code"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	// State is active, completed or canceled.
	State string `json:"state"`
}

// The paths below /latest/ that can be there or not.
const (
	// SpotPath is the action that is announced for a spot instance, and its time.
	SpotPath = "meta-data/spot/instance-action"
	// TerminationPath is when a spot instance is terminated.
	TerminationPath = "meta-data/spot/termination-time"
	// RebalancePath is when a rebalance was recommended.
	RebalancePath = "meta-data/events/recommendations/rebalance"
	// ScheduledPath lists the maintenance events; it is always there.
	ScheduledPath = "meta-data/events/maintenance/scheduled"
)

// at reports whether something is announced at a path.
func (a Announced) at(path string) bool {
	switch path {
	case SpotPath, TerminationPath:
		return a.Spot != nil
	case RebalancePath:
		return a.Rebalance != nil
	case ScheduledPath:
		return len(a.Scheduled) > 0
	}
	return false
}

// scheduledFormat is the format of times in maintenance events.
const scheduledFormat = "02 Jan 2006 15:04:05 GMT"

// documents are the texts below /latest/ at a time, by path.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html
func documents(i Instance, a Announced, now time.Time) (map[string]string, error) {
	out := map[string]string{
		"meta-data/instance-id":                 i.ID,
		"meta-data/instance-type":               i.Type,
		"meta-data/instance-life-cycle":         i.LifeCycle,
		"meta-data/hostname":                    i.Hostname,
		"meta-data/local-hostname":              i.Hostname,
		"meta-data/local-ipv4":                  i.IP,
		"meta-data/placement/availability-zone": i.Zone,
		"meta-data/placement/region":            i.Region,
	}
	scheduled := make([]map[string]string, 0, len(a.Scheduled))
	for _, e := range a.Scheduled {
		scheduled = append(scheduled, map[string]string{
			"Code": e.Code, "Description": strings.ReplaceAll(e.Code, "-", " "), "EventId": e.ID, "State": e.State,
			"NotBefore": e.NotBefore.UTC().Format(scheduledFormat), "NotAfter": e.NotAfter.UTC().Format(scheduledFormat),
		})
	}
	texts := map[string]any{
		ScheduledPath: scheduled,
		"meta-data/iam/security-credentials/" + role: map[string]string{
			"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": i.AccessKey, "SecretAccessKey": "test", "Token": "test",
			"LastUpdated": now.UTC().Format(time.RFC3339), "Expiration": now.Add(credentialsFor).UTC().Format(time.RFC3339),
		},
		"dynamic/instance-identity/document": map[string]string{
			"accountId": i.Account, "availabilityZone": i.Zone, "instanceId": i.ID, "instanceType": i.Type, "privateIp": i.IP, "region": i.Region,
		},
	}
	if a.Spot != nil {
		at := a.Spot.Time.UTC().Format(time.RFC3339)
		texts[SpotPath] = map[string]string{"action": a.Spot.Action, "time": at}
		if a.Spot.Action == "terminate" {
			out[TerminationPath] = at
		}
	}
	if a.Rebalance != nil {
		texts[RebalancePath] = map[string]string{"noticeTime": a.Rebalance.UTC().Format(time.RFC3339)}
	}
	for path, value := range texts {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", path, err)
		}
		out[path] = string(text)
	}
	return out, nil
}

// listing is what is directly below a folder, one name in a line, as the real service lists it; a
// name with something below it ends in a slash. It is empty if the folder is not there.
func listing(documents map[string]string, folder string) string {
	folder = strings.TrimSuffix(folder, "/")
	names := map[string]bool{}
	for path := range documents {
		rest, below := strings.CutPrefix(path, folder+"/")
		if !below {
			continue
		}
		name, _, more := strings.Cut(rest, "/")
		if more {
			name += "/"
		}
		names[name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "\n")
}
