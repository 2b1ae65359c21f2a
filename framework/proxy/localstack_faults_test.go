package proxy

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

func (d drillQueue) begin(t *testing.T, f fault.Fault) {
	t.Helper()
	f.On, f.Name = history.OnQueue, uuid.NewString() // the previous one may still be ending
	if err := d.recorder.begin(f); err != nil {
		t.Fatal(err)
	}
}

func (d drillQueue) send(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := d.SendRaw(t.Context(), body); err != nil {
			t.Fatal(err)
		}
	}
}

func (d drillQueue) wantEmpty(t *testing.T) {
	t.Helper()
	if visible, invisible, err := d.Depth(t.Context()); err != nil || visible+invisible != 0 {
		t.Errorf("%d visible and %d invisible messages are left (%v)", visible, invisible, err)
	}
}

func TestLocalStackRefusedCallsLeaveTheMessage(t *testing.T) {
	d := realQueue(t)
	d.send(t, "a")
	for _, f := range []fault.Fault{
		{Type: history.Throttle, Count: 1},
		{Type: history.Throttle, Count: 1, Code: "RequestThrottled"},
		{Type: history.ServerError, Count: 1, Status: http.StatusInternalServerError},
		{Type: history.Reset, Count: 1},
		{Type: history.BlackHole, For: strict.Duration(200 * time.Millisecond)},
	} {
		d.begin(t, f)
		_, err := d.receive(t.Context(), 20)
		if err == nil || !retry.NewStandard().IsErrorRetryable(err) {
			t.Errorf("%s: the SDK would not try again after %v", f.Type, err)
		}
	}
	_, body, handle := d.receiveOne(t, 1)
	if body != "a" {
		t.Errorf("received %q", body)
	}
	d.delete(t, handle)
	d.wantEmpty(t)
}

func TestLocalStackTakesTheHandlesOfDuplicates(t *testing.T) {
	for name, after := range map[string]time.Duration{"in one batch": 0, "later": time.Second} {
		t.Run(name, func(t *testing.T) {
			d := realQueue(t)
			d.send(t, "a")
			d.begin(t, fault.Fault{Type: history.Duplicate, Count: 1, After: strict.Duration(after)})
			var got []types.Message
			for began := time.Now(); len(got) < 2 && time.Since(began) < 10*time.Second; {
				out, err := d.receive(t.Context(), 5)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, out.Messages...)
				for _, m := range out.Messages {
					d.delete(t, *m.ReceiptHandle)
				}
			}
			if len(got) != 2 || *got[0].MessageId != *got[1].MessageId || *got[0].ReceiptHandle == *got[1].ReceiptHandle || *got[1].Body != "a" {
				t.Errorf("received %+v", got)
			}
			d.wantEmpty(t)
		})
	}
}

// A copy's handle alone deletes the message, singly and in a batch.
func TestLocalStackDeletesByACopysHandle(t *testing.T) {
	d := realQueue(t)
	d.send(t, "a", "b")
	d.begin(t, fault.Fault{Type: history.Duplicate, Count: 1})
	out, err := d.receive(t.Context(), 1)
	if err != nil || len(out.Messages) != 4 {
		t.Fatalf("received %+v, %v", out, err)
	}
	d.delete(t, *out.Messages[2].ReceiptHandle)
	deleted, err := d.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{
		QueueUrl: aws.String(d.QueueURL("")),
		Entries:  []types.DeleteMessageBatchRequestEntry{{Id: aws.String("x"), ReceiptHandle: out.Messages[3].ReceiptHandle}},
	})
	if err != nil || len(deleted.Successful) != 1 {
		t.Errorf("in a batch: %+v, %v", deleted, err)
	}
	d.wantEmpty(t)
}

func TestLocalStackBatchIsReordered(t *testing.T) {
	d := realQueue(t)
	d.send(t, "a", "b", "c")
	d.begin(t, fault.Fault{Type: history.Reorder, Count: 1})
	out, err := d.receive(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	for _, m := range out.Messages {
		bodies = append(bodies, *m.Body)
	}
	if got := strings.Join(bodies, ""); got != "cba" {
		t.Errorf("received %q", got)
	}
}

func TestLocalStackHasDoneWhatALostAnswerWouldHaveSaid(t *testing.T) {
	d := realQueue(t)
	d.send(t, "a")
	_, _, handle := d.receiveOne(t, 1)
	d.begin(t, fault.Fault{Type: history.LostAnswer, Count: 1})
	_, err := d.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String(d.QueueURL("")), ReceiptHandle: &handle})
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reports %v", err)
	}
	d.wantEmpty(t)
	d.delete(t, handle) // again, as a client would that heard nothing
}

// The bodies of the scenario on text that is no Unicode rest on this.
func TestLocalStackHoldsNothingButUTF8(t *testing.T) {
	d := realQueue(t)
	// The SDK compares checksums, and reports that the body was changed on its way.
	_, err := d.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(d.QueueURL("")), MessageBody: aws.String("<\xff\xfe>")},
		func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })
	if err != nil {
		t.Fatal(err)
	}
	_, body, handle := d.receiveOne(t, 1)
	if body != "<\uFFFD\uFFFD>" {
		t.Errorf("the SDK's message arrives as %q", body)
	}
	d.delete(t, handle)
	resp, err := formCall(t.Context(), d.QueueURL(d.proxy.URL), "sqs", "Action=SendMessage&MessageBody=%FF%FE")
	status, text := read(t, resp, err)
	t.Logf("raw bytes: %d %s", status, text)
	out, err := d.receive(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range out.Messages {
		if !utf8.ValidString(*m.Body) {
			t.Errorf("it holds %q", *m.Body)
		}
		t.Logf("raw bytes arrive as %q", *m.Body)
		d.delete(t, *m.ReceiptHandle)
	}
}
