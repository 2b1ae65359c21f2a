package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

const authorization = "AWS4-HMAC-SHA256 Credential=test/20260304/ap-northeast-2/%s/aws4_request, SignedHeaders=host, Signature=0"

// upstream is a fake LocalStack.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	hosts  []string
}

func newUpstream(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.bodies, u.hosts = append(u.bodies, string(body)), append(u.hosts, r.Host)
		u.mu.Unlock()
		answer(w, r, string(body))
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.bodies...)
}

// proxied starts a proxy before u and records what passes it.
func proxied(t *testing.T, u *upstream) (endpoint string, rec *history.Recorder) {
	t.Helper()
	target, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := New(target)
	rec = recorded(t, proxy)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, rec
}

func jsonCall(ctx context.Context, endpoint, action, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("Authorization", fmt.Sprintf(authorization, "sqs"))
	return http.DefaultClient.Do(req)
}

func formCall(ctx context.Context, endpoint, service, form string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	req.Header.Set("Authorization", fmt.Sprintf(authorization, service))
	return http.DefaultClient.Do(req)
}

func read(t *testing.T, resp *http.Response, err error) (status int, body string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const (
	jsonMessages = `{"Messages":[{"MessageId":"m1","ReceiptHandle":"h1","Body":"{\"id\":\"e1\"}"},{"MessageId":"m2","ReceiptHandle":"h2","Body":"not JSON"}]}`
	xmlMessages  = `<?xml version="1.0"?><ReceiveMessageResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><ReceiveMessageResult>` +
		`<Message><MessageId>m1</MessageId><ReceiptHandle>h1</ReceiptHandle><Body>{&quot;id&quot;:&quot;e1&quot;}</Body></Message>` +
		`<Message><MessageId>m2</MessageId><ReceiptHandle>h2</ReceiptHandle><Body>not JSON</Body></Message></ReceiveMessageResult></ReceiveMessageResponse>`
)

// scripted answers SQS in both protocols: messages once, then nothing; of a
// batch, entry "b" is refused.
func scripted() func(w http.ResponseWriter, r *http.Request, body string) {
	handedOut := false
	return func(w http.ResponseWriter, r *http.Request, body string) {
		inJSON := r.Header.Get("X-Amz-Target") != ""
		action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), sqsTarget)
		if form, err := url.ParseQuery(body); !inJSON && err == nil {
			action = form.Get("Action")
		}
		answers := map[string][2]string{
			"ReceiveMessage":     {`{}`, `<ReceiveMessageResponse><ReceiveMessageResult/></ReceiveMessageResponse>`},
			"DeleteMessage":      {`{}`, `<DeleteMessageResponse/>`},
			"DeleteMessageBatch": {`{"Successful":[{"Id":"a"}],"Failed":[{"Id":"b"}]}`, `<DeleteMessageBatchResponse><DeleteMessageBatchResult><DeleteMessageBatchResultEntry><Id>a</Id></DeleteMessageBatchResultEntry><BatchResultErrorEntry><Id>b</Id></BatchResultErrorEntry></DeleteMessageBatchResult></DeleteMessageBatchResponse>`},
		}[action]
		if action == "ReceiveMessage" && !handedOut {
			handedOut = true
			answers = [2]string{jsonMessages, xmlMessages}
		}
		if inJSON {
			_, _ = io.WriteString(w, answers[0])
		} else {
			_, _ = io.WriteString(w, answers[1])
		}
	}
}

func TestProxyRecordsBothProtocols(t *testing.T) {
	for name, send := range map[string]func(endpoint, action string) (*http.Response, error){
		"JSON": func(endpoint, action string) (*http.Response, error) {
			return jsonCall(context.Background(), endpoint, action, map[string]string{
				"ReceiveMessage":     `{"QueueUrl":"` + testQueue + `","WaitTimeSeconds":20}`,
				"DeleteMessage":      `{"QueueUrl":"` + testQueue + `","ReceiptHandle":"h1"}`,
				"DeleteMessageBatch": `{"QueueUrl":"` + testQueue + `","Entries":[{"Id":"a","ReceiptHandle":"h2"},{"Id":"b","ReceiptHandle":"h1"}]}`,
			}[action])
		},
		"query": func(endpoint, action string) (*http.Response, error) {
			return formCall(context.Background(), endpoint+"/000000000000/drill", "sqs", "Action="+action+map[string]string{
				"ReceiveMessage":     "&WaitTimeSeconds=20",
				"DeleteMessage":      "&ReceiptHandle=h1",
				"DeleteMessageBatch": "&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle=h2&DeleteMessageBatchRequestEntry.2.Id=b&DeleteMessageBatchRequestEntry.2.ReceiptHandle=h1",
			}[action])
		},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, rec := proxied(t, newUpstream(t, scripted()))
			for _, action := range []string{"ReceiveMessage", "DeleteMessage", "DeleteMessageBatch"} {
				resp, err := send(endpoint, action)
				if status, body := read(t, resp, err); status != http.StatusOK || body == "" {
					t.Fatalf("%s: %d %q", action, status, body)
				}
			}
			awaitEvent(t, rec, func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == "m2" })
			var got []string
			for _, e := range rec.Events() {
				got = append(got, fmt.Sprintf("%s %s %s%s%s %d", e.Kind, e.Queue(), e.Action, e.Message, e.Notice, e.Status))
			}
			want := []string{
				"sqs.call drill ReceiveMessage 200", "sqs.receive drill m1e1 0", "sqs.receive drill m2 0",
				"sqs.call drill DeleteMessage 200", "sqs.delete drill m1e1 0",
				"sqs.call drill DeleteMessageBatch 200", "sqs.delete drill m2 0",
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestProxyPassesFaultsOn(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("X-Amzn-Requestid", "r1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.sqs#ServiceUnavailable","message":"later"}`)
	})
	endpoint, rec := proxied(t, u)
	resp, err := jsonCall(t.Context(), endpoint, "ReceiveMessage", `{"QueueUrl":"`+testQueue+`","WaitTimeSeconds":20}`)
	if status, body := read(t, resp, err); status != http.StatusServiceUnavailable || !strings.Contains(body, "later") || resp.Header.Get("X-Amzn-Requestid") != "r1" {
		t.Errorf("got %d %q %v", status, body, resp.Header)
	}
	awaitEvent(t, rec, func(e history.Event) bool { return e.Status == 503 && e.ErrorCode() == "ServiceUnavailable" })
	u.Close()
	resp, err = jsonCall(t.Context(), endpoint, "DeleteMessage", `{"QueueUrl":"`+testQueue+`","ReceiptHandle":"h1"}`)
	if status, _ := read(t, resp, err); status != http.StatusBadGateway {
		t.Errorf("with the upstream gone: %d", status)
	}
	awaitEvent(t, rec, func(e history.Event) bool { return e.Action == "DeleteMessage" && e.Status == 502 && e.Note != "" })
	for _, e := range rec.Events() {
		if e.Kind != history.SQSCall {
			t.Errorf("recorded %+v", e)
		}
	}
}

func TestProxyNamesOtherServicesAndLeavesThemAlone(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, body string) { _, _ = io.WriteString(w, "echo "+body) })
	endpoint, rec := proxied(t, u)
	const form = "Action=DescribeInstances&Version=2016-11-15&WaitTimeSeconds=20"
	resp, err := formCall(t.Context(), endpoint, "ec2", form)
	if status, body := read(t, resp, err); status != http.StatusOK || body != "echo "+form {
		t.Errorf("got %d %q", status, body)
	}
	awaitEvent(t, rec, func(e history.Event) bool { return e.Action == "ec2:DescribeInstances" && e.Status == 200 })
	if host := strings.TrimPrefix(endpoint, "http://"); u.hosts[0] != host {
		t.Errorf("the upstream saw host %q, the client asked %q", u.hosts[0], host)
	}
}

func TestProxyPassesLargeBodiesUntouched(t *testing.T) {
	large := strings.Repeat("x", maxInspected+1)
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, body string) { _, _ = io.WriteString(w, body) })
	endpoint, rec := proxied(t, u)
	resp, err := jsonCall(t.Context(), endpoint, "SendMessageBatch", large)
	if status, body := read(t, resp, err); status != http.StatusOK || body != large {
		t.Errorf("got %d and %d bytes", status, len(body))
	}
	awaitEvent(t, rec, func(e history.Event) bool {
		return e.Action == "SendMessageBatch" && strings.Contains(e.Note, "request not inspected")
	})
}

func TestProxyHealth(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request, string) {})
	target, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(New(target).Admin())
	defer server.Close()
	resp, err := http.Get(server.URL + "/healthz")
	if status, _ := read(t, resp, err); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	u.Close()
	resp, err = http.Get(server.URL + "/healthz")
	if status, _ := read(t, resp, err); status != http.StatusServiceUnavailable {
		t.Errorf("upstream gone: %d", status)
	}
}
