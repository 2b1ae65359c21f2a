package proxy

import (
	"encoding/xml"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
)

// launches reports whether the call launches instances, and EC2 answers at once that it cannot: a
// fleet of another type than instant is only accepted.
func (c *call) launches() bool {
	return c.service == "ec2" && (c.action == "RunInstances" || c.action == "CreateFleet" && c.form.Get("Type") == "instant")
}

// capacity is what the call launches.
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
