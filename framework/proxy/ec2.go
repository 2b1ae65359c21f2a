package proxy

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
)

// launches reports whether the call launches instances, and EC2 answers at once that it cannot: a
// fleet of another type than instant is only accepted.
func (c *call) launches() bool {
	return c.service == "ec2" && (c.action == "RunInstances" || c.action == "CreateFleet" && c.form.Get("Type") == "instant")
}

func (c *call) capacity() string {
	for _, field := range []string{"TargetCapacitySpecification.DefaultTargetCapacityType", "InstanceMarketOptions.MarketType"} {
		if c.form.Get(field) == history.Spot {
			return history.Spot
		}
	}
	return history.OnDemand
}

// answerNoCapacity answers a launch as EC2 does without capacity: a fleet has one error for
// each of its pools, with status 200.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html
func (x *exchange) answerNoCapacity(w http.ResponseWriter, code history.ErrorCode) {
	message := withoutCapacity(code)
	x.answer.code = string(code)
	var body any
	if x.call.action == "CreateFleet" {
		x.status, body = http.StatusOK, fleetWithout(&x.call, code, message)
	} else {
		x.status, body = http.StatusBadRequest, ec2Error{Code: code, Message: message, RequestID: uuid.NewString()}
		if code == history.InsufficientInstanceCapacity {
			x.status = http.StatusInternalServerError
		}
	}
	text, err := xml.Marshal(body)
	if err != nil {
		http.Error(w, "spotdrill proxy: encode the answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(x.status)
	_, _ = w.Write(append([]byte(xml.Header), text...)) // the client may be gone
}

// withoutCapacity is what EC2 answers with the code of a NoCapacity fault.
func withoutCapacity(code history.ErrorCode) string {
	switch code {
	case history.MaxSpotInstanceCountExceeded:
		return "Max spot instance count exceeded"
	case history.VcpuLimitExceeded:
		return "You have requested more vCPU capacity than your current vCPU limit allows."
	case history.SpotMaxPriceTooLow:
		return "Your Spot request price is lower than the minimum required Spot request fulfillment price."
	}
	return "There is not enough capacity to fulfill your request."
}

// ec2Error is an error of EC2, see
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
type ec2Error struct {
	XMLName   xml.Name          `xml:"Response"`
	Code      history.ErrorCode `xml:"Errors>Error>Code"`
	Message   string            `xml:"Errors>Error>Message"`
	RequestID string            `xml:"RequestID"`
}

// noFleet is the answer to a CreateFleet that launched nothing.
type noFleet struct {
	XMLName   xml.Name     `xml:"http://ec2.amazonaws.com/doc/2016-11-15/ CreateFleetResponse"`
	RequestID string       `xml:"requestId"`
	FleetID   string       `xml:"fleetId"`
	Errors    []fleetError `xml:"errorSet>item"`
	Instances struct{}     `xml:"fleetInstanceSet"`
}

type fleetError struct {
	Code      history.ErrorCode `xml:"errorCode"`
	Message   string            `xml:"errorMessage"`
	Lifecycle string            `xml:"lifecycle"`
	Template  fleetTemplate     `xml:"launchTemplateAndOverrides>launchTemplateSpecification"`
	Pool      fleetPool         `xml:"launchTemplateAndOverrides>overrides"`
}

type fleetTemplate struct {
	ID      string `xml:"launchTemplateId,omitempty"`
	Name    string `xml:"launchTemplateName,omitempty"`
	Version string `xml:"version,omitempty"`
}

type fleetPool struct {
	Type   string `xml:"instanceType,omitempty"`
	Subnet string `xml:"subnetId,omitempty"`
	Zone   string `xml:"availabilityZone,omitempty"`
}

func fleetWithout(c *call, code history.ErrorCode, message string) noFleet {
	fleet := noFleet{RequestID: uuid.NewString(), FleetID: "fleet-" + uuid.NewString()}
	for config := 1; ; config++ {
		at := fmt.Sprintf("LaunchTemplateConfigs.%d.", config)
		template := at + "LaunchTemplateSpecification."
		lacks := fleetError{Code: code, Message: message, Lifecycle: c.capacity(), Template: fleetTemplate{
			ID: c.form.Get(template + "LaunchTemplateId"), Name: c.form.Get(template + "LaunchTemplateName"), Version: c.form.Get(template + "Version"),
		}}
		if lacks.Template.ID == "" && lacks.Template.Name == "" {
			return fleet
		}
		pools := 0
		for ; ; pools++ {
			pool := fmt.Sprintf("%sOverrides.%d.", at, pools+1)
			lacks.Pool = fleetPool{Type: c.form.Get(pool + "InstanceType"), Subnet: c.form.Get(pool + "SubnetId"), Zone: c.form.Get(pool + "AvailabilityZone")}
			if lacks.Pool == (fleetPool{}) {
				break
			}
			fleet.Errors = append(fleet.Errors, lacks)
		}
		if pools == 0 { // the template alone describes what to launch
			fleet.Errors = append(fleet.Errors, lacks)
		}
	}
}

// Finding is what EC2 describes about an instance when it is asked for its status.
type Finding struct {
	Instance string              `json:"instance"`
	Of       history.StatusCheck `json:"of"`
	Since    time.Time           `json:"since"` // of a check that fails; of an event, when it is due
}

// findings are answered in place of EC2: the LocalStack that drills use finds every instance well.
type findings struct {
	mu  sync.Mutex
	all []Finding
}

func (f *findings) add(all []Finding) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, all...)
	return nil
}

func (f *findings) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}

func (f *findings) list() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// instanceStatus answers DescribeInstanceStatus while there are findings, by the filters of the call. ok is
// false for any other call.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceStatus.html
func (x *exchange) instanceStatus() (resp *http.Response, ok bool) {
	c := &x.call
	found := x.proxy.findings.list()
	if c.service != "ec2" || c.action != "DescribeInstanceStatus" || len(found) == 0 {
		return nil, false
	}
	x.polls++
	answer := statuses{RequestID: uuid.NewString()}
	for _, f := range found {
		if c.matchesFilters(f) {
			answer.Items = append(answer.Items, statusOf(f))
		}
	}
	return xmlAnswer(http.StatusOK, answer), true
}

// matchesFilters reports whether every filter of the call matches the finding.
func (c *call) matchesFilters(f Finding) bool {
	matches := map[string]string{"instance-status.status": "ok", "system-status.status": "ok"}
	switch f.Of {
	case history.InstanceCheck:
		matches["instance-status.status"] = "impaired"
	case history.SystemCheck:
		matches["system-status.status"] = "impaired"
	default:
		matches["event.code"] = string(f.Of)
	}
	for i := 1; ; i++ {
		filter := "Filter." + strconv.Itoa(i)
		name := c.form.Get(filter + ".Name")
		if name == "" {
			return true
		}
		var values []string
		for n := 1; c.form.Has(filter + ".Value." + strconv.Itoa(n)); n++ {
			values = append(values, c.form.Get(filter+".Value."+strconv.Itoa(n)))
		}
		if !slices.Contains(values, matches[name]) {
			return false
		}
	}
}

type statuses struct {
	XMLName   xml.Name     `xml:"http://ec2.amazonaws.com/doc/2016-11-15/ DescribeInstanceStatusResponse"`
	RequestID string       `xml:"requestId"`
	Items     []statusItem `xml:"instanceStatusSet>item"`
}

type statusItem struct {
	Instance string        `xml:"instanceId"`
	Code     int           `xml:"instanceState>code"`
	State    string        `xml:"instanceState>name"`
	Events   []statusEvent `xml:"eventsSet>item,omitempty"`
	System   checkStatus   `xml:"systemStatus"`
	Own      checkStatus   `xml:"instanceStatus"`
}

type statusEvent struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore"`
}

type checkStatus struct {
	Status string `xml:"status"`
	Since  string `xml:"details>item>impairedSince,omitempty"`
	Name   string `xml:"details>item>name"`
	Result string `xml:"details>item>status"`
}

// running is the code of a running instance.
const running = 16

func statusOf(f Finding) statusItem {
	well := checkStatus{Status: "ok", Name: "reachability", Result: "passed"}
	since := f.Since.UTC().Format(time.RFC3339)
	ill := checkStatus{Status: "impaired", Since: since, Name: "reachability", Result: "failed"}
	s := statusItem{Instance: f.Instance, Code: running, State: "running", System: well, Own: well}
	switch f.Of {
	case history.InstanceCheck:
		s.Own = ill
	case history.SystemCheck:
		s.System = ill
	default:
		s.Events = []statusEvent{{ID: "instance-event-" + f.Instance, Code: string(f.Of), Description: "The instance is scheduled for " + string(f.Of), NotBefore: since}}
	}
	return s
}
