package proxy

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
)

// The calls of Auto Scaling that the proxy answers: see lifecycle.
const (
	completeLifecycleAction = "CompleteLifecycleAction"
	lifecycleHeartbeat      = "RecordLifecycleActionHeartbeat"
)

// lifecycle answers calls about lifecycle hooks in place of Auto Scaling, which is not part of the
// LocalStack that drills use. It accepts every call with the parameters that AWS requires. ok is
// false for any other call.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CompleteLifecycleAction.html
func (x *exchange) lifecycle() (resp *http.Response, ok bool) {
	c := &x.call
	if !c.ofLifecycle() {
		return nil, false
	}
	x.polls++
	if missing := c.missesOfLifecycle(); missing != "" {
		x.answer.code = "ValidationError"
		return xmlAnswer(http.StatusBadRequest, autoScalingError{Type: "Sender", Code: x.answer.code, Message: missing, RequestID: uuid.NewString()}), true
	}
	return xmlAnswer(http.StatusOK, lifecycleAnswer{
		XMLName: xml.Name{Local: c.action + "Response"}, Space: autoScalingSpace,
		Result: &struct{ XMLName xml.Name }{xml.Name{Local: c.action + "Result"}}, RequestID: uuid.NewString(),
	}), true
}

func (c *call) ofLifecycle() bool {
	return c.service == "autoscaling" && slices.Contains([]string{completeLifecycleAction, lifecycleHeartbeat}, c.action)
}

// missesOfLifecycle describes what the call lacks; empty if nothing.
func (c *call) missesOfLifecycle() string {
	for _, field := range []string{"AutoScalingGroupName", "LifecycleHookName"} {
		if c.form.Get(field) == "" {
			return "The request must contain the parameter " + field
		}
	}
	if c.form.Get("LifecycleActionToken") == "" && c.form.Get("InstanceId") == "" {
		return "The request must contain LifecycleActionToken or InstanceId"
	}
	result := c.form.Get("LifecycleActionResult")
	if c.action == completeLifecycleAction && !slices.Contains([]string{"CONTINUE", "ABANDON"}, result) {
		return fmt.Sprintf("LifecycleActionResult is %q: want CONTINUE or ABANDON", result)
	}
	return ""
}

func (x *exchange) lifecycleActed() []history.Event {
	c := &x.call
	if !c.ofLifecycle() || x.status != http.StatusOK {
		return nil
	}
	return []history.Event{history.NewLifecycleActed(c.action, c.form.Get("LifecycleHookName"), c.form.Get("InstanceId"), c.form.Get("LifecycleActionResult"), history.At(x.answered), history.By(c.by), history.Note(c.form.Get("LifecycleActionToken")))}
}

const autoScalingSpace = "http://autoscaling.amazonaws.com/doc/2011-01-01/"

type lifecycleAnswer struct {
	XMLName   xml.Name
	Space     string `xml:"xmlns,attr"`
	Result    any
	RequestID string `xml:"ResponseMetadata>RequestId"`
}

type autoScalingError struct {
	XMLName   xml.Name `xml:"http://autoscaling.amazonaws.com/doc/2011-01-01/ ErrorResponse"`
	Type      string   `xml:"Error>Type"`
	Code      string   `xml:"Error>Code"`
	Message   string   `xml:"Error>Message"`
	RequestID string   `xml:"RequestId"`
}

// xmlAnswer is an answer of AWS's query protocol.
func xmlAnswer(status int, body any) *http.Response {
	text, err := xml.Marshal(body)
	if err != nil { // these types always encode
		status, text = http.StatusBadGateway, []byte(err.Error())
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/xml"}}, ContentLength: int64(len(text)), Body: io.NopCloser(bytes.NewReader(text)),
	}
}
