package proxy

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// hits reports whether a fault on the queue or EC2 hits the call. LostAnswer hits a receive only if it
// has messages.
func hits(f fault.Fault, c *call) bool {
	switch {
	case f.On == history.OnEC2:
		return c.launches() && (f.Capacity == "" || f.Capacity == c.capacity())
	case f.On != history.OnQueue:
		return false
	case f.Type == history.Duplicate || f.Type == history.Reorder:
		return c.action == "ReceiveMessage"
	case f.Type == history.FailedEntry:
		return deletes(c.action)
	}
	if hits, decided := f.Hits(c.action, "", ""); decided {
		return hits
	}
	switch {
	case len(f.Actions) > 0:
		return slices.Contains(f.Actions, c.action)
	case f.Type == history.LostAnswer:
		return deletes(c.action)
	}
	return true
}

func deletes(action string) bool { return strings.HasPrefix(action, "DeleteMessage") }

// take returns the first fault of these types that hits the call; nil if there is none. The hit is
// done at the end of the call.
func (x *exchange) take(types ...history.FaultType) *fault.Active {
	f := x.proxy.faults.Take(func(f fault.Fault) bool { return slices.Contains(types, f.Type) && hits(f, &x.call) })
	if f != nil {
		x.hits = append(x.hits, f)
	}
	return f
}

// hitBy is take, and records the hit.
func (x *exchange) hitBy(types ...history.FaultType) *fault.Active {
	f := x.take(types...)
	if f != nil {
		x.proxy.records.add(f.Hit(history.At(x.proxy.records.now()), history.Action(x.call.name())))
	}
	return f
}

// copied is a copy of a message for a second delivery.
type copied struct {
	fault *fault.Active
	json  bool   // the protocol of raw
	queue string // name
	raw   []byte // the message as in an answer
	message
	due    time.Time
	client string // address of the first delivery
}

// copies wait for their delivery. Those of a fault that has ended are dropped.
type copies struct {
	faults *fault.Faults

	mu  sync.Mutex
	all []copied
}

// isFor reports whether the answer to the call may contain the copy.
func (held copied) isFor(c *call) bool {
	return held.json == c.json && held.queue == c.queue && !time.Now().Before(held.due) && (!held.fault.ToAnother || held.client != c.client)
}

// hold keeps a copy for delivery when it is due.
func (cs *copies) hold(c copied) {
	if !cs.faults.Again(c.fault) {
		return // the fault has ended in the meantime
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.all = append(cs.all, c)
}

// due removes and returns up to most copies for the answer to this call.
func (cs *copies) due(c *call, most int) []copied {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var out []copied
	cs.all = slices.DeleteFunc(cs.all, func(held copied) bool {
		switch {
		case !cs.faults.Has(held.fault):
			return true
		case len(out) >= most || !held.isFor(c):
			return false
		}
		out = append(out, held)
		return true
	})
	return out
}

// isDue reports whether a copy waits for this call.
func (cs *copies) isDue(c *call) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.ContainsFunc(cs.all, func(held copied) bool { return held.isFor(c) && cs.faults.Has(held.fault) })
}

type refusal struct {
	status int
	// code is its name in the JSON protocol, and query in the query protocol if that is
	// another one. Clients of the JSON protocol read both.
	code, query   string
	blame, prefix string // blame is Sender or Receiver
	message       string
}

// refused is why a call gets an error of SQS in place of an answer, with the note of its record.
type refused struct {
	refusal
	note string
}

func (r refused) Error() string { return cmp.Or(r.note, r.code) }

const (
	sender, receiver = "Sender", "Receiver"
	// The namespaces of the errors that all of AWS has, and of SQS's own.
	commonErrors = "com.amazon.coral.service#"
	ownErrors    = "com.amazonaws.sqs#"
)

// queryCode is the error's name in the query protocol.
func (r refusal) queryCode() string { return cmp.Or(r.query, r.code) }

// refusalOf is the error that SQS itself would return; ok is false for a fault that
// refuses calls without an answer.
func refusalOf(f fault.Fault) (r refusal, ok bool) {
	switch f.Type {
	case history.ServerError:
		if f.Status == http.StatusServiceUnavailable {
			return refusal{status: f.Status, code: "ServiceUnavailable", blame: receiver, prefix: commonErrors, message: "The service is temporarily unavailable."}, true
		}
		return refusal{status: http.StatusInternalServerError, code: "InternalFailure", blame: receiver, prefix: commonErrors, message: "An internal error has occurred."}, true
	case history.Throttle, history.ClientError, history.FailedEntry:
		return codedRefusal(f.ErrorCode()), true
	}
	return refusal{}, false
}

// codedRefusal is the error with that code. RequestThrottled and what is about a queue or
// a message are part of SQS's own model, the others are common to all of AWS.
func codedRefusal(code history.ErrorCode) refusal {
	r := refusal{code: string(code), blame: sender, prefix: ownErrors}
	switch code {
	case history.ThrottlingException:
		r.status, r.prefix, r.message = http.StatusBadRequest, "com.amazon.coral.availability#", "Rate exceeded"
	case history.RequestThrottled:
		r.status, r.message = http.StatusForbidden, "The request was denied due to request throttling."
	case history.AccessDenied:
		r.status, r.prefix, r.query = http.StatusForbidden, commonErrors, "AccessDenied"
		r.message = "User is not authorized to perform this action because no identity-based policy allows it"
	case history.ExpiredToken:
		r.status, r.prefix, r.query = http.StatusForbidden, commonErrors, "ExpiredToken"
		r.message = "The security token included in the request is expired"
	case history.QueueDoesNotExist:
		r.status, r.query, r.message = http.StatusBadRequest, "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist."
	case history.ReceiptHandleIsInvalid:
		r.status, r.message = http.StatusNotFound, "The input receipt handle is invalid."
	case history.InternalError:
		r.status, r.blame, r.message = http.StatusInternalServerError, receiver, "An internal error has occurred."
	}
	return r
}

// body is the error in the JSON protocol of SQS or in its query protocol.
func (r refusal) body(asJSON bool) (body []byte, contentType string) {
	if asJSON {
		body, _ = json.Marshal(map[string]string{"__type": r.prefix + r.code, "message": r.message}) // strings always encode
		return body, "application/x-amz-json-1.0"
	}
	type fault struct {
		Type, Code, Message string
	}
	body, _ = xml.Marshal(struct { // strings always encode
		XMLName   xml.Name `xml:"http://queue.amazonaws.com/doc/2012-11-05/ ErrorResponse"`
		Error     fault
		RequestID string `xml:"RequestId"`
	}{Error: fault{r.blame, r.queryCode(), r.message}, RequestID: uuid.NewString()})
	return append([]byte(xml.Header), body...), "text/xml"
}
