package proxy

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"net/http"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

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
