package proxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

func (q *faultyQueue) deleteBatch(t *testing.T, handles ...string) (deleted, failed []string) {
	t.Helper()
	in := &sqs.DeleteMessageBatchInput{QueueUrl: aws.String(testQueue)}
	for _, handle := range handles {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String("of-" + handle[2:3]), ReceiptHandle: aws.String(handle)})
	}
	out, err := q.client.DeleteMessageBatch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Successful {
		deleted = append(deleted, *s.Id)
	}
	for _, f := range out.Failed {
		failed = append(failed, *f.Id+" "+*f.Code)
	}
	return deleted, failed
}

func TestOneEntryOfABatchFails(t *testing.T) {
	q := newFaultyQueue(t, "a", "b")
	if _, err := q.receive(t.Context(), 10, 0); err != nil {
		t.Fatal(err)
	}
	q.set(t, fault.Fault{Name: "f", Type: history.FailedEntry, Count: 1})
	deleted, failed := q.deleteBatch(t, "h/0+=", "h/1+=")
	if !slices.Equal(deleted, []string{"of-1"}) || !slices.Equal(failed, []string{"of-0 InternalError"}) {
		t.Errorf("deleted %q, failed %q", deleted, failed)
	}
	if deleted, failed := q.deleteBatch(t, "h/0+="); !slices.Equal(deleted, []string{"of-0"}) || failed != nil {
		t.Errorf("afterwards: deleted %q, failed %q", deleted, failed)
	}
	if want := []string{"ReceiveMessage", "DeleteMessageBatch h/1+=", "DeleteMessageBatch h/0+="}; !slices.Equal(q.calls, want) {
		t.Errorf("the queue got %q, want %q", q.calls, want)
	}
	q.wantEvents(t, "fault.begun f failed-entry", "fault.hit f failed-entry DeleteMessageBatch m-0", "fault.ended f count")
	awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == "m-0" })
	var gone []string
	for _, e := range q.rec.Events() {
		if e.Kind == history.SQSDeleted {
			gone = append(gone, e.Message)
		}
	}
	if !slices.Equal(gone, []string{"m-1", "m-0"}) {
		t.Errorf("recorded as deleted: %q", gone)
	}
}

func TestABatchOfOneEntryThatFailsDoesNotReachTheQueue(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.FailedEntry, Count: 1})
	if deleted, failed := q.deleteBatch(t, "h/0+="); deleted != nil || !slices.Equal(failed, []string{"of-0 InternalError"}) {
		t.Errorf("deleted %q, failed %q", deleted, failed)
	}
	if len(q.calls) > 0 {
		t.Errorf("the queue got %q", q.calls)
	}
}

// A single deletion has no entries: the call itself is refused.
func TestASingleDeletionFails(t *testing.T) {
	for code, want := range map[history.ErrorCode]string{"": "InternalError", history.ReceiptHandleIsInvalid: "ReceiptHandleIsInvalid"} {
		q := newFaultyQueue(t, "a")
		q.set(t, fault.Fault{Name: "f", Type: history.FailedEntry, Count: 1, Code: code})
		var api smithy.APIError
		if err := q.delete(t.Context(), "h/0+="); !errors.As(err, &api) || api.ErrorCode() != want {
			t.Errorf("the SDK reports %v, want %s", err, want)
		}
		if len(q.calls) > 0 {
			t.Errorf("the queue got %q", q.calls)
		}
		call := awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.SQSCall })
		if string(call.ErrorCode()) != want || !strings.Contains(call.Note, "fault f") {
			t.Errorf("recorded %+v", call)
		}
	}
}

// An expired receipt handle stays so. The message has another one when it comes again.
func TestAnExpiredReceiptHandleIsRefusedForGood(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.FailedEntry, Count: 1, Code: history.ReceiptHandleIsInvalid})
	for range 3 {
		var stale *types.ReceiptHandleIsInvalid
		if err := q.delete(t.Context(), "h/0+="); !errors.As(err, &stale) {
			t.Errorf("the SDK reports %v", err)
		}
	}
	if deleted, failed := q.deleteBatch(t, "h/0+=", "h/1+="); !slices.Equal(deleted, []string{"of-1"}) || !slices.Equal(failed, []string{"of-0 ReceiptHandleIsInvalid"}) {
		t.Errorf("in a batch: deleted %q, failed %q", deleted, failed)
	}
	if err := q.delete(t.Context(), "h/2+="); err != nil {
		t.Errorf("another handle: %v", err)
	}
	q.wantEvents(t, "fault.begun f failed-entry", "fault.hit f failed-entry DeleteMessage", "fault.ended f count")
}

func TestAFailedEntryInTheQueryProtocol(t *testing.T) {
	const answer = `<DeleteMessageBatchResponse><DeleteMessageBatchResult><DeleteMessageBatchResultEntry><Id>b</Id></DeleteMessageBatchResultEntry></DeleteMessageBatchResult></DeleteMessageBatchResponse>`
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = w.Write([]byte(answer)) })
	target, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := New(target)
	server := httptest.NewServer(proxy)
	defer server.Close()
	const form = "Action=DeleteMessageBatch&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle=h1"
	const second = "&DeleteMessageBatchRequestEntry.2.Id=b&DeleteMessageBatchRequestEntry.2.ReceiptHandle=h2"
	for name, c := range map[string]struct{ form, failed, reaches string }{
		"one of two": {form + second, "a", "Action=DeleteMessageBatch&DeleteMessageBatchRequestEntry.1.Id=b&DeleteMessageBatchRequestEntry.1.ReceiptHandle=h2"},
		"the only":   {form, "a", ""},
	} {
		if err := proxy.begin(fault.Fault{On: history.OnQueue, Name: name, Type: history.FailedEntry, Count: 1}); err != nil {
			t.Fatal(err)
		}
		before := len(u.requests())
		resp, err := formCall(t.Context(), server.URL+"/000000000000/drill", "sqs", c.form)
		status, body := read(t, resp, err)
		want := "<BatchResultErrorEntry><Id>" + c.failed + "</Id><Code>InternalError</Code>"
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if got := strings.Join(u.requests()[before:], " "); got != c.reaches {
			t.Errorf("%s: the queue got %q, want %q", name, got, c.reaches)
		}
	}
}
