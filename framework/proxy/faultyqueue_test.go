package proxy

import (
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	testRegion = "ap-northeast-2"
	testQueue  = "http://sqs.ap-northeast-2.localhost.localstack.cloud:4566/000000000000/drill"
)

// faultyQueue is a queue behind a proxy that can inject faults, and the SDK's own
// client that calls the proxy.
type faultyQueue struct {
	client   *sqs.Client
	endpoint string
	admin    string
	rec      *history.Recorder

	mu      sync.Mutex
	waiting []string // bodies; m-0 is the first message's id and h-0 its handle
	handed  int
	calls   []string // that reached the queue: action and receipt handle
}

func newFaultyQueue(t *testing.T, bodies ...string) *faultyQueue {
	t.Helper()
	q := &faultyQueue{waiting: bodies}
	upstream := httptest.NewServer(q)
	t.Cleanup(upstream.Close)
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := New(target)
	q.rec = recorded(t, proxy)
	api, admin := httptest.NewServer(proxy), httptest.NewServer(proxy.Admin())
	t.Cleanup(api.Close)
	t.Cleanup(admin.Close)
	q.endpoint, q.admin, q.client = api.URL, admin.URL, sqsClient(api.URL)
	return q
}

// ServeHTTP is as much of SQS as the tests need, in its JSON protocol.
func (q *faultyQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ReceiptHandle       string
		MaxNumberOfMessages int
		Entries             []struct{ Id, ReceiptHandle string }
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), sqsTarget)
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[string]any{}
	if action == "ReceiveMessage" {
		var messages []map[string]string
		for len(q.waiting) > 0 && len(messages) < max(1, in.MaxNumberOfMessages) {
			sum := md5.Sum([]byte(q.waiting[0]))
			messages = append(messages, map[string]string{
				"MessageId": fmt.Sprintf("m-%d", q.handed), "ReceiptHandle": fmt.Sprintf("h/%d+=", q.handed),
				"Body": q.waiting[0], "MD5OfBody": hex.EncodeToString(sum[:]),
			})
			q.waiting, q.handed = q.waiting[1:], q.handed+1
		}
		out["Messages"] = messages
	}
	named := in.ReceiptHandle
	var done []map[string]string
	for _, e := range in.Entries {
		named = strings.TrimSpace(named + " " + e.ReceiptHandle)
		done = append(done, map[string]string{"Id": e.Id})
	}
	if action == "DeleteMessageBatch" {
		out["Successful"] = done
	}
	q.calls = append(q.calls, strings.TrimSpace(action+" "+named))
	_ = json.NewEncoder(w).Encode(out)
}

// sqsClient is the SDK's own client, as a handler has one, without retries.
func sqsClient(endpoint string) *sqs.Client {
	return sqs.New(sqs.Options{
		BaseEndpoint: &endpoint, Region: testRegion, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{}}, Retryer: aws.NopRetryer{},
	})
}

func (q *faultyQueue) reached(call string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.calls, call)
}

func (q *faultyQueue) set(t *testing.T, f fault.Fault) {
	t.Helper()
	f.On = cmp.Or(f.On, history.OnQueue)
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(q.admin+"/faults", "application/json", strings.NewReader(string(body)))
	if status, text := read(t, resp, err); status != http.StatusOK {
		t.Fatalf("set %+v: %d %s", f, status, text)
	}
}

func (q *faultyQueue) clear(t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, q.admin+"/faults", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if status, text := read(t, resp, err); status != http.StatusOK {
		t.Fatalf("clear: %d %s", status, text)
	}
}

func (q *faultyQueue) receive(ctx context.Context, most, wait int32) ([]types.Message, error) {
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(testQueue), MaxNumberOfMessages: most, WaitTimeSeconds: wait,
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func (q *faultyQueue) delete(ctx context.Context, handle string) error {
	_, err := q.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: aws.String(testQueue), ReceiptHandle: &handle})
	return err
}

// faultEvents lists the recorded events of faults in their order.
func (q *faultyQueue) faultEvents() []string {
	var out []string
	for _, e := range q.rec.Events() {
		if strings.HasPrefix(string(e.Kind), "fault.") {
			out = append(out, strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.Step(), " ", e.FaultType(), e.FaultEnd(), " ", e.Action, " ", e.Message)), " "))
		}
	}
	return out
}

func (q *faultyQueue) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	awaitEvent(t, q.rec, func(history.Event) bool { return len(q.faultEvents()) >= len(want) })
	if got := q.faultEvents(); !slices.Equal(got, want) {
		t.Errorf("recorded\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func ids(messages []types.Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, aws.ToString(m.MessageId))
	}
	return strings.Join(out, " ")
}
