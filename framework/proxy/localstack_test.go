package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
)

// drillQueue is a deployed stack in a real LocalStack, with the proxy in front of it
// and a history of the proxy's records.
type drillQueue struct {
	*cloud.AWS
	endpoint string // of LocalStack
	proxy    *httptest.Server
	client   *sqs.Client // a handler's, through the proxy
	rec      *history.Recorder
	recorder *Proxy
}

func realQueue(t *testing.T) drillQueue {
	t.Helper()
	endpoint := os.Getenv("SPOTDRILL_LOCALSTACK")
	if endpoint == "" {
		t.Skip("needs a LocalStack: set SPOTDRILL_LOCALSTACK to its endpoint, for instance http://127.0.0.1:4566")
	}
	a := cloud.Connect(endpoint, testRegion)
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.DeployStack(t.Context(), "drill"); err != nil {
		t.Fatal(err)
	}
	if err := a.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	upstream, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := New(upstream)
	d := drillQueue{AWS: a, endpoint: endpoint, proxy: httptest.NewServer(proxy), rec: recorded(t, proxy), recorder: proxy}
	t.Cleanup(func() {
		d.proxy.Close()
		// Drills may be using this LocalStack.
		if err := a.DeleteStack(context.WithoutCancel(t.Context()), "drill"); err != nil {
			t.Errorf("remove the stack: %v", err)
		}
	})
	d.client = sqsClient(d.proxy.URL)
	return d
}

func (d drillQueue) receive(ctx context.Context, wait int32) (*sqs.ReceiveMessageOutput, error) {
	return d.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(d.QueueURL("")), WaitTimeSeconds: wait, MaxNumberOfMessages: 10, VisibilityTimeout: 20,
	})
}

func (d drillQueue) receiveOne(t *testing.T, wait int32) (id, body, handle string) {
	t.Helper()
	out, err := d.receive(t.Context(), wait)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Messages) != 1 {
		t.Fatalf("want one message, got %d", len(out.Messages))
	}
	m := out.Messages[0]
	return aws.ToString(m.MessageId), aws.ToString(m.Body), aws.ToString(m.ReceiptHandle)
}

func (d drillQueue) delete(t *testing.T, handle string) {
	t.Helper()
	if _, err := d.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String(d.QueueURL("")), ReceiptHandle: &handle}); err != nil {
		t.Fatal(err)
	}
}

func TestLocalStackEveryNoticeArrivesUnderItsID(t *testing.T) {
	d := realQueue(t)
	for _, typ := range history.NoticeTypes() {
		ids, err := d.Put(t.Context(), cloud.Notice{Type: typ, Instances: []string{"i-0aaa"}})
		if err != nil {
			t.Fatal(err)
		}
		id, body, handle := d.receiveOne(t, 5)
		if got := noticeID(body); got != ids[0] {
			t.Errorf("%s: PutEvents gave id %s, the envelope has %s", typ, ids[0], got)
		}
		d.delete(t, handle)
		awaitEvent(t, d.rec, func(e history.Event) bool {
			return e.Kind == history.SQSDeleted && e.Notice == ids[0] && e.Message == id
		})
	}
	// No rule of the stack matches it.
	raw, err := d.SendRaw(t.Context(), "not JSON")
	if err != nil {
		t.Fatal(err)
	}
	if id, _, _ := d.receiveOne(t, 5); id != raw {
		t.Errorf("sent message %s, received %s", raw, id)
	}
	if visible, invisible, err := d.Depth(t.Context()); err != nil || visible != 0 || invisible != 1 {
		t.Errorf("depth %d, %d, %v", visible, invisible, err)
	}
	if err := d.Purge(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLocalStackLatencyThroughTheProxy(t *testing.T) {
	d := realQueue(t)
	direct := drillQueue{AWS: d.AWS, client: sqsClient(d.endpoint)}
	t.Logf("PutEvents to receive: %s through the proxy, %s without", medianLatency(t, d), medianLatency(t, direct))
}

// medianLatency is from before PutEvents to the answer of a waiting long poll.
func medianLatency(t *testing.T, d drillQueue) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 15 {
		received := make(chan time.Time, 1)
		var deleted sync.WaitGroup
		deleted.Go(func() {
			out, err := d.receive(t.Context(), 10)
			received <- time.Now()
			if err != nil || len(out.Messages) != 1 {
				t.Errorf("want one message, got %+v, %v", out, err)
				return
			}
			d.delete(t, aws.ToString(out.Messages[0].ReceiptHandle))
		})
		time.Sleep(300 * time.Millisecond) // let the poll be waiting
		began := time.Now()
		if _, err := d.Put(t.Context(), cloud.Notice{Type: history.SpotInterruption, Instances: []string{"i-0aaa"}}); err != nil {
			t.Fatal(err)
		}
		took = append(took, (<-received).Sub(began))
		deleted.Wait()
	}
	slices.Sort(took)
	t.Logf("min %s, median %s, max %s", took[0], took[len(took)/2], took[len(took)-1])
	return took[len(took)/2]
}

// TestLocalStackKilledClientTakesNothing kills a process that long-polls, as a
// handler that is killed does. The next client must get the next message at once, not
// after a visibility timeout.
func TestLocalStackKilledClientTakesNothing(t *testing.T) {
	d := realQueue(t)
	late := 0
	for attempt := range 10 {
		killLongPoll(t, d, time.Duration(attempt)*70*time.Millisecond)
		began := time.Now()
		if _, err := d.SendRaw(t.Context(), fmt.Sprintf("after kill %d", attempt)); err != nil {
			t.Fatal(err)
		}
		took := d.waitOne(t)
		t.Logf("attempt %d: %s", attempt, took.Sub(began))
		if took.Sub(began) > 2*time.Second {
			late++
		}
	}
	if late > 1 {
		t.Errorf("%d of 10 clients waited longer than 2 s because of the poll of a dead one", late)
	}
	for _, e := range d.rec.Events() {
		if e.Owner == history.ProxyOwner {
			t.Logf("given back: %+v", e)
		}
	}
}

// waitOne waits for the next message, at most a visibility timeout, and returns when it
// came.
func (d drillQueue) waitOne(t *testing.T) time.Time {
	t.Helper()
	for range 3 {
		out, err := d.receive(t.Context(), 15)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 1 {
			came := time.Now()
			d.delete(t, aws.ToString(out.Messages[0].ReceiptHandle))
			return came
		}
	}
	t.Fatal("the message never came")
	return time.Time{}
}

// killLongPoll starts a client process with a long poll and kills it later.
func killLongPoll(t *testing.T, d drillQueue, later time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLongPollingProcess$")
	cmd.Env = append(os.Environ(), "SPOTDRILL_TEST_POLL="+d.proxy.URL, "SPOTDRILL_TEST_QUEUE="+d.QueueURL(""))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len(polling))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200*time.Millisecond + later)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

const polling = "polling\n"

// TestLongPollingProcess is the process that killLongPoll kills.
func TestLongPollingProcess(t *testing.T) {
	endpoint := os.Getenv("SPOTDRILL_TEST_POLL")
	if endpoint == "" {
		t.Skip("only as a process of another test")
	}
	fmt.Print(polling)
	_, err := sqsClient(endpoint).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(os.Getenv("SPOTDRILL_TEST_QUEUE")), WaitTimeSeconds: 20, VisibilityTimeout: 20,
	})
	t.Errorf("it was not killed: %v", err)
}
