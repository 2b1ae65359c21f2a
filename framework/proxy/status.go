package proxy

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
)

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
		if c.asksFor(f) {
			answer.Items = append(answer.Items, statusOf(f))
		}
	}
	return xmlAnswer(http.StatusOK, answer), true
}

// asksFor reports whether every filter of the call matches the finding.
func (c *call) asksFor(f Finding) bool {
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
