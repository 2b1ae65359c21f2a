package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestARefusalIsWhatTheSDKKnowsFromSQS(t *testing.T) {
	for name, c := range map[string]struct {
		fault     fault.Fault
		code      string
		status    int
		throttles bool
	}{
		"throttled":            {fault.Fault{Type: history.Throttle}, "ThrottlingException", 400, true},
		"throttled by SQS":     {fault.Fault{Type: history.Throttle, Code: "RequestThrottled"}, "RequestThrottled", 403, true},
		"an internal error":    {fault.Fault{Type: history.ServerError, Status: 500}, "InternalFailure", 500, false},
		"no service available": {fault.Fault{Type: history.ServerError, Status: 503}, "ServiceUnavailable", 503, false},
		"access denied":        {fault.Fault{Type: history.ClientError, Code: history.AccessDenied}, "AccessDenied", 403, false},
		"credentials expired":  {fault.Fault{Type: history.ClientError, Code: history.ExpiredToken}, "ExpiredToken", 403, false},
		"no such queue":        {fault.Fault{Type: history.ClientError, Code: history.QueueDoesNotExist}, "AWS.SimpleQueueService.NonExistentQueue", 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := newFaultyQueue(t, "a")
			c.fault.Name, c.fault.Count = "f", 1
			q.set(t, c.fault)
			_, err := q.receive(t.Context(), 10, 20)
			var api smithy.APIError
			var response *smithyhttp.ResponseError
			if !errors.As(err, &api) || api.ErrorCode() != c.code || !errors.As(err, &response) || response.HTTPStatusCode() != c.status {
				t.Fatalf("the SDK reports %v", err)
			}
			if got := retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err).Bool(); got != c.throttles {
				t.Errorf("for the SDK it is throttling: %t", got)
			}
			// Only the client itself can try again after a client error.
			if retry.NewStandard().IsErrorRetryable(err) == (c.fault.Type == history.ClientError) {
				t.Errorf("the SDK would try again: %t", c.fault.Type == history.ClientError)
			}
			if q.reached("ReceiveMessage") {
				t.Error("the call reached the queue")
			}
			call := awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.SQSCall })
			if call.Status != c.status || string(call.ErrorCode()) != cmp.Or(string(c.fault.Code), c.code) || !strings.Contains(call.Note, "fault f") {
				t.Errorf("recorded %+v", call)
			}
			if messages, err := q.receive(t.Context(), 10, 0); err != nil || ids(messages) != "m-0" {
				t.Errorf("afterwards: %q, %v", ids(messages), err)
			}
		})
	}
}

func TestARefusalInTheQueryProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fault.Fault
		status int
		want   string
	}{
		"throttled":         {fault.Fault{Type: history.Throttle}, 400, "<Type>Sender</Type><Code>ThrottlingException</Code>"},
		"throttled by SQS":  {fault.Fault{Type: history.Throttle, Code: "RequestThrottled"}, 403, "<Type>Sender</Type><Code>RequestThrottled</Code>"},
		"an internal error": {fault.Fault{Type: history.ServerError, Status: 500}, 500, "<Type>Receiver</Type><Code>InternalFailure</Code>"},
		"access denied":     {fault.Fault{Type: history.ClientError, Code: history.AccessDenied}, 403, "<Type>Sender</Type><Code>AccessDenied</Code>"},
		"no such queue":     {fault.Fault{Type: history.ClientError, Code: history.QueueDoesNotExist}, 400, "<Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code>"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newFaultyQueue(t)
			c.fault.Name, c.fault.Count = "f", 1
			q.set(t, c.fault)
			resp, err := formCall(t.Context(), q.endpoint+"/000000000000/drill", "sqs", "Action=ReceiveMessage")
			status, body := read(t, resp, err)
			if status != c.status || !strings.Contains(body, `<ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error>`+c.want) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestAResetIsOneForTheClient(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.Reset, Count: 1})
	if _, err := q.receive(t.Context(), 1, 0); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reports %v", err)
	}
	if q.reached("ReceiveMessage") {
		t.Error("the call reached the queue")
	}
	q.wantEvents(t, "fault.begun f reset", "fault.hit f reset ReceiveMessage", "fault.ended f count")
}

func TestABlackHoleAnswersNothingWhileItLasts(t *testing.T) {
	const lasts = 400 * time.Millisecond
	q := newFaultyQueue(t, "a")
	began := time.Now()
	q.set(t, fault.Fault{Name: "f", Type: history.BlackHole, For: strict.Duration(lasts)})
	impatient, cancel := context.WithTimeout(t.Context(), lasts/4)
	defer cancel()
	if _, err := q.receive(impatient, 1, 20); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an impatient client gets %v", err)
	}
	if _, err := q.receive(t.Context(), 1, 20); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a patient client gets %v", err)
	}
	if took := time.Since(began); took < lasts {
		t.Errorf("it got that after %s", took)
	}
	if q.reached("ReceiveMessage") {
		t.Error("a call reached the queue")
	}
	if messages, err := q.receive(t.Context(), 1, 0); err != nil || ids(messages) != "m-0" {
		t.Errorf("afterwards: %q, %v", ids(messages), err)
	}
	q.wantEvents(t, "fault.begun f black-hole", "fault.hit f black-hole ReceiveMessage", "fault.hit f black-hole ReceiveMessage", "fault.ended f time")
}

// With silent, a client that waits does not learn that the black hole is over.
func TestASilentBlackHoleNeverAnswersWhatItHolds(t *testing.T) {
	const lasts = 200 * time.Millisecond
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.BlackHole, For: strict.Duration(lasts), Silent: true})
	held := make(chan error, 1)
	go func() {
		_, err := q.receive(t.Context(), 1, 20)
		held <- err
	}()
	awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded && e.FaultEnd() == "time" })
	if messages, err := q.receive(t.Context(), 1, 0); err != nil || ids(messages) != "m-0" {
		t.Errorf("on a new connection: %q, %v", ids(messages), err)
	}
	select {
	case err := <-held:
		t.Errorf("the patient client gets %v", err)
	case <-time.After(2 * lasts):
	}
	q.clear(t)
	select {
	case err := <-held:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("when the faults are cleared, it gets %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it still waits after the drill: the next one would not have it")
	}
	q.wantEvents(t, "fault.begun f black-hole", "fault.hit f black-hole ReceiveMessage", "fault.ended f time")
}

func TestADelayHoldsTheAnswerBack(t *testing.T) {
	const by = 200 * time.Millisecond
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.Delay, By: strict.Duration(by), Count: 1, Actions: []string{"ReceiveMessage"}})
	if err := q.delete(t.Context(), "h"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if messages, err := q.receive(t.Context(), 1, 20); err != nil || ids(messages) != "m-0" {
		t.Fatalf("received %q, %v", ids(messages), err)
	}
	if took := time.Since(began); took < by {
		t.Errorf("it took %s", took)
	}
	received := awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.SQSReceived })
	hit := awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.FaultHit })
	if received.At-hit.At < by {
		t.Errorf("recorded as received %s after the hit", received.At-hit.At)
	}
	q.wantEvents(t, "fault.begun f delay", "fault.hit f delay ReceiveMessage", "fault.ended f count")
}

func TestALostAnswerIsOneThatTookEffect(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.LostAnswer, Count: 1})
	messages, err := q.receive(t.Context(), 1, 0)
	if err != nil {
		t.Fatalf("only deletions were to be hit: %v", err)
	}
	handle := *messages[0].ReceiptHandle
	if err := q.delete(t.Context(), handle); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reports %v", err)
	}
	if !q.reached("DeleteMessage " + handle) {
		t.Error("the deletion did not reach the queue")
	}
	awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == "m-0" })
	if err := q.delete(t.Context(), handle); err != nil {
		t.Errorf("the second time: %v", err)
	}
	q.wantEvents(t, "fault.begun f lost-answer", "fault.hit f lost-answer DeleteMessage", "fault.ended f count")
}

func TestALostReceiveIsNotGivenBack(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.LostAnswer, Count: 1, Actions: []string{"ReceiveMessage"}})
	if _, err := q.receive(t.Context(), 1, 0); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reports %v", err)
	}
	q.wantEvents(t, "fault.begun f lost-answer", "fault.hit f lost-answer ReceiveMessage", "fault.ended f count")
	if q.reached("ChangeMessageVisibilityBatch") {
		t.Error("the messages were given back")
	}
	for _, e := range q.rec.Events() {
		if e.Kind == history.SQSReceived {
			t.Errorf("recorded as received: %+v", e)
		}
	}
}

// Polls without messages are not counted: how many there are depends on the time.
func TestAFaultOfTheQueueStartsAtACall(t *testing.T) {
	for call, want := range map[string][]string{
		"ReceiveMessage #1": {"fault.begun f lost-answer", "fault.hit f lost-answer ReceiveMessage", "fault.ended f count"},
		"DeleteMessage #2":  {"fault.begun f lost-answer"},
	} {
		q := newFaultyQueue(t)
		q.set(t, fault.Fault{Name: "f", Type: history.LostAnswer, At: call})
		for range 2 {
			if messages, err := q.receive(t.Context(), 1, 0); err != nil || len(messages) > 0 {
				t.Fatalf("received %q, %v", ids(messages), err)
			}
		}
		q.mu.Lock()
		q.waiting = []string{"a"}
		q.mu.Unlock()
		if _, err := q.receive(t.Context(), 1, 0); errors.Is(err, syscall.ECONNRESET) != (len(want) > 1) {
			t.Errorf("%s: the client reports %v", call, err)
		}
		q.wantEvents(t, want...)
	}
}

// To lose an empty answer would be no loss, and the fault would be over.
func TestAnEmptyAnswerIsNotLost(t *testing.T) {
	q := newFaultyQueue(t)
	q.set(t, fault.Fault{Name: "f", Type: history.LostAnswer, Count: 1, Actions: []string{"ReceiveMessage"}})
	for wait := range int32(2) { // a short poll and a long one
		if messages, err := q.receive(t.Context(), 1, wait); err != nil || len(messages) > 0 {
			t.Errorf("received %q, %v", ids(messages), err)
		}
	}
	q.wantEvents(t, "fault.begun f lost-answer")
}

func TestAFaultHitsALongPollThatIsUnderWay(t *testing.T) {
	q := newFaultyQueue(t)
	refused := make(chan error, 1)
	go func() {
		_, err := q.receive(t.Context(), 1, 20)
		refused <- err
	}()
	for !q.reached("ReceiveMessage") {
		time.Sleep(time.Millisecond)
	}
	q.set(t, fault.Fault{Name: "f", Type: history.ServerError, Status: 500, Count: 1})
	select {
	case err := <-refused:
		var response *smithyhttp.ResponseError
		if !errors.As(err, &response) || response.HTTPStatusCode() != 500 {
			t.Errorf("the client gets %v", err)
		}
	case <-time.After(3 * time.Second):
		t.Error("the client still waits")
	}
}

func TestAFaultHitsItsActionsOnlyAndEnds(t *testing.T) {
	q := newFaultyQueue(t)
	refused := func() string {
		_, receive := q.receive(t.Context(), 1, 0)
		return fmt.Sprintf("receive %t, delete %t", receive != nil, q.delete(t.Context(), "h") != nil)
	}
	expect := func(when, want string) {
		t.Helper()
		if got := refused(); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	const none, both = "receive false, delete false", "receive true, delete true"
	q.set(t, fault.Fault{Name: "deletions", Type: history.ServerError, Status: 503, Actions: []string{"DeleteMessage"}, Count: 1})
	expect("one deletion", "receive false, delete true")
	expect("its count is spent", none)
	q.set(t, fault.Fault{Name: "all", Type: history.Throttle, For: strict.Duration(300 * time.Millisecond)})
	expect("for a time", both)
	awaitEvent(t, q.rec, func(e history.Event) bool {
		return e.Kind == history.FaultEnded && e.Step() == "all" && e.FaultEnd() == "time"
	})
	expect("its time is over", none)
	q.set(t, fault.Fault{Name: "cleared", Type: history.Reset, For: strict.Duration(time.Minute)})
	expect("before it is cleared", both)
	q.clear(t)
	expect("after", none)
	awaitEvent(t, q.rec, func(e history.Event) bool {
		return e.Kind == history.FaultEnded && e.Step() == "cleared" && e.FaultEnd() == "cleared"
	})
}

func TestAFaultThatMakesNoSenseIsRefused(t *testing.T) {
	q := newFaultyQueue(t)
	q.set(t, fault.Fault{Name: "on", Type: history.Reset, For: strict.Duration(time.Minute)})
	for body, want := range map[string]string{
		`{"on":"queue","name":"f","type":"flood","count":1}`:            `type "flood" is not known`,
		`{"on":"queue","type":"reset","count":1}`:                       "name must not be empty",
		`{"on":"queue","name":"on","type":"reset","count":1}`:           "is already active",
		`{"name":"f","typ":"reset"}`:                                    "unknown field",
		`{"on":"api","name":"f","type":"reset","count":1}`:              "this is not a proxy for an API server",
		`{"on":"ec2","name":"f","type":"ended-launch","count":1}`:       "not for the proxy",
		`{"on":"queue","name":"f","type":"second-reader","for":1}`:      "not for the proxy",
		`{"on":"metadata","name":"f","type":"reset","for":1,"node":""}`: "not for the proxy",
		`{`: "unexpected EOF",
	} {
		resp, err := http.Post(q.admin+"/faults", "application/json", strings.NewReader(body))
		if status, text := read(t, resp, err); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %q, want %q", body, status, text, want)
		}
	}
}

func TestOtherServicesAreNotHit(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, "fine") })
	target, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := New(target)
	if err := proxy.begin(fault.Fault{On: history.OnQueue, Name: "f", Type: history.Reset, For: strict.Duration(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	resp, err := formCall(t.Context(), server.URL, "ec2", "Action=DescribeInstances")
	if status, body := read(t, resp, err); status != http.StatusOK || body != "fine" {
		t.Errorf("%d %q", status, body)
	}
}
