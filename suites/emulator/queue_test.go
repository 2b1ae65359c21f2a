package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

func ofTheQueue() []requirement {
	return []requirement{
		{"notices", "an event of each type of notice gets to the queue by its rule, under the id that PutEvents answered", everyNoticeArrives},
		{"latency", "a long poll that waits gets an event within a second", longPollsGetEvents},
		{"killed-client", "a client that was killed in a long poll takes no message", killedClientTakesNothing},
		{"refused-calls", "a call that the proxy refuses leaves the message, and the SDK tries again", refusedCallsLeaveTheMessage},
		{"handle-twice", "a message is deleted with its handle once more, without an error, and each copy by its own", duplicatesAreDeleted},
		{"copy-handle", "the handle of a copy deletes the message, singly and in a batch", copyHandleDeletes},
		{"batches", "a batch holds all messages that are there, in the order in which they were sent", batchIsReordered},
		{"lost-answer", "a call whose answer is lost was done", lostAnswerWasDone},
		{"utf-8", "a message holds nothing but UTF-8", nothingButUTF8},
	}
}

func (d *drillQueue) receive(ctx context.Context, wait int32) (*sqs.ReceiveMessageOutput, error) {
	return d.handler.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &d.url, WaitTimeSeconds: wait, MaxNumberOfMessages: 10, VisibilityTimeout: 20})
}

func (d *drillQueue) receiveOne(ctx context.Context, wait int32) types.Message {
	GinkgoHelper()
	out := must(d.receive(ctx, wait))
	Expect(out.Messages).To(HaveLen(1), "one message is received")
	return out.Messages[0]
}

func (d *drillQueue) delete(ctx context.Context, m types.Message) {
	GinkgoHelper()
	_, err := d.handler.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &d.url, ReceiptHandle: m.ReceiptHandle})
	need(err)
}

func (d *drillQueue) send(ctx context.Context, bodies ...string) {
	GinkgoHelper()
	for _, body := range bodies {
		must(d.SendRaw(ctx, body))
	}
}

func (d *drillQueue) wantEmpty(ctx context.Context) {
	GinkgoHelper()
	visible, invisible, err := d.Depth(ctx)
	need(err)
	Expect(visible+invisible).To(BeZero(), "messages left in the queue")
}

// begin begins a fault of the proxy.
func (d *drillQueue) begin(ctx context.Context, f fault.Fault) {
	GinkgoHelper()
	f.On, f.Name = history.OnQueue, fmt.Sprintf("fault-%d", time.Now().UnixNano()) // the previous one may still be ending
	request := must(http.NewRequestWithContext(ctx, http.MethodPost, d.admin+"/faults", bytes.NewReader(must(json.Marshal(f)))))
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	Expect(answer.StatusCode).To(Equal(http.StatusOK), string(must(io.ReadAll(answer.Body))))
}

func everyNoticeArrives(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	for _, typ := range history.NoticeTypes() {
		ids := must(d.Put(ctx, cloud.Notice{Type: typ, Instances: []string{"i-0aaa"}}))
		out := must(d.receive(ctx, 5))
		Expect(out.Messages).To(HaveLen(1), "a notice of type %s arrives", typ)
		m := out.Messages[0]
		var event cloud.Envelope
		need(json.Unmarshal([]byte(*m.Body), &event))
		Expect(event.ID).To(Equal(ids[0]), "the id in the message, and that of PutEvents, of a notice of type %s", typ)
		d.delete(ctx, m)
		Eventually(ctx, func() bool {
			return slices.ContainsFunc(d.rec.Events(), func(e history.Event) bool {
				return e.Kind == history.SQSDeleted && e.Notice == ids[0] && e.Message == *m.MessageId
			})
		}).WithTimeout(10*time.Second).Should(BeTrue(), "the proxy records that it was deleted")
	}
	// No rule of the stack matches it.
	raw := must(d.SendRaw(ctx, "not JSON"))
	Expect(*d.receiveOne(ctx, 5).MessageId).To(Equal(raw), "the id of a message that is no event")
	visible, invisible, err := d.Depth(ctx)
	need(err)
	Expect([]int{visible, invisible}).To(Equal([]int{0, 1}), "visible and invisible messages after one was received")
}

func longPollsGetEvents(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	var took []time.Duration
	for range 15 {
		received, failed := make(chan time.Time, 1), make(chan error, 1)
		go func() {
			out, err := d.receive(ctx, 10)
			received <- time.Now()
			if err == nil && len(out.Messages) != 1 {
				err = fmt.Errorf("%d messages were received", len(out.Messages))
			}
			if err == nil {
				_, err = d.handler.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &d.url, ReceiptHandle: out.Messages[0].ReceiptHandle})
			}
			failed <- err
		}()
		time.Sleep(300 * time.Millisecond) // let the poll be waiting
		began := time.Now()
		must(d.Put(ctx, cloud.Notice{Type: history.SpotInterruption, Instances: []string{"i-0aaa"}}))
		took = append(took, (<-received).Sub(began))
		need(<-failed)
	}
	slices.Sort(took)
	GinkgoWriter.Printf("min %s, median %s, max %s\n", took[0], took[len(took)/2], took[len(took)-1])
	Expect(took[len(took)/2]).To(BeNumerically("<", time.Second), "the median of 15")
}

// A handler that is killed leaves its poll. The next client must get the next message at once, not after a visibility
// timeout. Once in ten, the kernel may take a message that the client has not read.
func killedClientTakesNothing(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	late := 0
	for attempt := range 10 {
		d.killLongPoll(ctx, time.Duration(attempt)*70*time.Millisecond)
		began := time.Now()
		d.send(ctx, fmt.Sprintf("after kill %d", attempt))
		if took := d.waitOne(ctx).Sub(began); took > 2*time.Second {
			GinkgoWriter.Printf("attempt %d: %s\n", attempt, took)
			late++
		}
	}
	Expect(late).To(BeNumerically("<=", 1), "clients of 10 that waited longer than 2 s because of the poll of a dead one")
}

// waitOne waits for the next message, at most a visibility timeout, and returns when it came.
func (d *drillQueue) waitOne(ctx context.Context) time.Time {
	GinkgoHelper()
	for range 3 {
		out := must(d.receive(ctx, 15))
		if len(out.Messages) == 1 {
			came := time.Now()
			d.delete(ctx, out.Messages[0])
			return came
		}
	}
	Fail("the message never came")
	return time.Time{}
}

const (
	polling     = "polling\n"
	endpointEnv = "SPOTDRILL_TEST_POLL"
	queueEnv    = "SPOTDRILL_TEST_QUEUE"
)

// killLongPoll starts a client process with a long poll and kills it later.
func (d *drillQueue) killLongPoll(ctx context.Context, later time.Duration) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLongPollingProcess$")
	cmd.Env = append(os.Environ(), endpointEnv+"="+aws.ToString(d.handler.Options().BaseEndpoint), queueEnv+"="+d.url)
	out := must(cmd.StdoutPipe())
	need(cmd.Start())
	must(io.ReadFull(out, make([]byte, len(polling))))
	time.Sleep(200*time.Millisecond + later)
	need(cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

// TestLongPollingProcess is the process that killLongPoll kills.
func TestLongPollingProcess(t *testing.T) {
	endpoint := os.Getenv(endpointEnv)
	if endpoint == "" {
		t.Skip("only as a process of a spec")
	}
	fmt.Print(polling)
	_, err := sqs.NewFromConfig((&emulator{}).config(endpoint)).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(os.Getenv(queueEnv)), WaitTimeSeconds: 20, VisibilityTimeout: 20,
	})
	t.Errorf("it was not killed: %v", err)
}

func refusedCallsLeaveTheMessage(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	d.send(ctx, "a")
	for _, f := range []fault.Fault{
		{Type: history.Throttle, Count: 1},
		{Type: history.Throttle, Count: 1, Code: "RequestThrottled"},
		{Type: history.ServerError, Count: 1, Status: http.StatusInternalServerError},
		{Type: history.Reset, Count: 1},
		{Type: history.BlackHole, For: strict.Duration(200 * time.Millisecond)},
	} {
		d.begin(ctx, f)
		_, err := d.receive(ctx, 20)
		Expect(err != nil && retry.NewStandard().IsErrorRetryable(err)).To(BeTrue(), "%s: the SDK tries again after %v", f.Type, err)
	}
	m := d.receiveOne(ctx, 1)
	Expect(*m.Body).To(Equal("a"))
	d.delete(ctx, m)
	d.wantEmpty(ctx)
}

func duplicatesAreDeleted(ctx context.Context, e *emulator) {
	for _, after := range []time.Duration{0, time.Second} { // in one batch, and later
		d := e.queue(ctx)
		d.send(ctx, "a")
		d.begin(ctx, fault.Fault{Type: history.Duplicate, Count: 1, After: strict.Duration(after)})
		var got []types.Message
		for began := time.Now(); len(got) < 2 && time.Since(began) < 10*time.Second; {
			out := must(d.receive(ctx, 5))
			got = append(got, out.Messages...)
			for _, m := range out.Messages {
				d.delete(ctx, m)
			}
		}
		Expect(got).To(HaveLen(2), "a message and its copy")
		Expect(*got[0].MessageId == *got[1].MessageId && *got[0].ReceiptHandle != *got[1].ReceiptHandle && *got[1].Body == "a").To(BeTrue(), "%v", got)
		d.wantEmpty(ctx)
	}
}

func copyHandleDeletes(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	d.send(ctx, "a", "b")
	d.begin(ctx, fault.Fault{Type: history.Duplicate, Count: 1})
	out := must(d.receive(ctx, 1))
	Expect(out.Messages).To(HaveLen(4), "two messages and their copies")
	d.delete(ctx, out.Messages[2])
	deleted := must(d.handler.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: &d.url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("x"), ReceiptHandle: out.Messages[3].ReceiptHandle}},
	}))
	Expect(deleted.Successful).To(HaveLen(1), "deleted in a batch")
	d.wantEmpty(ctx)
}

func batchIsReordered(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	d.send(ctx, "a", "b", "c")
	d.begin(ctx, fault.Fault{Type: history.Reorder, Count: 1})
	var bodies []string
	for _, m := range must(d.receive(ctx, 1)).Messages {
		bodies = append(bodies, *m.Body)
	}
	Expect(strings.Join(bodies, "")).To(Equal("cba"), "what the proxy turned round")
}

func lostAnswerWasDone(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	d.send(ctx, "a")
	m := d.receiveOne(ctx, 1)
	d.begin(ctx, fault.Fault{Type: history.LostAnswer, Count: 1})
	_, err := d.handler.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &d.url, ReceiptHandle: m.ReceiptHandle})
	Expect(errors.Is(err, syscall.ECONNRESET)).To(BeTrue(), "the client reports %v", err)
	d.wantEmpty(ctx)
	d.delete(ctx, m) // again, as a client would that heard nothing
}

// The bodies of the scenario on text that is no Unicode rest on this.
func nothingButUTF8(ctx context.Context, e *emulator) {
	d := e.queue(ctx)
	// The SDK compares checksums, and reports that the body was changed on its way.
	_, err := d.handler.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &d.url, MessageBody: aws.String("<\xff\xfe>")},
		func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })
	need(err)
	m := d.receiveOne(ctx, 1)
	Expect(*m.Body).To(Equal("<\uFFFD\uFFFD>"), "the SDK's message")
	d.delete(ctx, m)
	request := must(http.NewRequestWithContext(ctx, http.MethodPost, d.url, strings.NewReader("Action=SendMessage&MessageBody=%FF%FE")))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/ap-northeast-2/sqs/aws4_request, SignedHeaders=host, Signature=0")
	answer := must(http.DefaultClient.Do(request))
	need(answer.Body.Close())
	for _, m := range must(d.receive(ctx, 1)).Messages {
		Expect(utf8.ValidString(*m.Body)).To(BeTrue(), "raw bytes arrive as %q", *m.Body)
		d.delete(ctx, m)
	}
}
