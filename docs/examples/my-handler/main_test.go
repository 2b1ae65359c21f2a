package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// drill is one API server and one queue. It has the pods of node worker-1, and what was done.
type drill struct {
	mu       sync.Mutex
	messages []message
	pods     []string // names of those that are evicted
	denied   int      // how many evictions the budget still denies
	done     []string
}

func (d *drill) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	switch target := r.Header.Get("X-Amz-Target"); {
	case target == "AmazonSQS.ReceiveMessage":
		type sqs struct {
			MessageID           string `json:"MessageId"`
			ReceiptHandle, Body string
		}
		var out []sqs
		for _, m := range d.messages {
			out = append(out, sqs(m))
		}
		d.messages = nil
		_ = json.NewEncoder(w).Encode(map[string]any{"Messages": out})
	case target == "AmazonSQS.DeleteMessage":
		var in struct{ ReceiptHandle string }
		_ = json.Unmarshal(body, &in)
		d.done = append(d.done, "delete "+in.ReceiptHandle)
		_, _ = io.WriteString(w, "{}")
	case r.URL.Path == "/api/v1/nodes":
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"worker-1"},"spec":{"providerID":"aws:///eu-west-1a/i-1"}}]}`)
	case r.Method == http.MethodPatch:
		d.done = append(d.done, "patch "+strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/")+" "+string(body))
		_, _ = io.WriteString(w, "{}")
	case strings.HasSuffix(r.URL.Path, "/eviction"):
		if d.denied > 0 {
			d.denied--
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		name := strings.Split(r.URL.Path, "/")[6]
		d.done = append(d.done, "evict "+name)
		d.pods = slices.DeleteFunc(d.pods, func(p string) bool { return p == name })
	case r.URL.Path == "/api/v1/pods":
		items := []string{
			`{"metadata":{"name":"daemon","ownerReferences":[{"kind":"DaemonSet"}]}}`,
			`{"metadata":{"name":"static","annotations":{"kubernetes.io/config.mirror":"x"}}}`, `{"metadata":{"name":"ended"},"status":{"phase":"Succeeded"}}`,
		}
		for _, p := range d.pods {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","ownerReferences":[{"kind":"ReplicaSet"}]}}`, p))
		}
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (d *drill) did() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.done)
}

func TestWhatItDoesWithAMessage(t *testing.T) {
	const spot = `{"detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":%q}}`
	cordon := `patch worker-1 {"spec":{"unschedulable":true}}`
	for name, c := range map[string]struct {
		body   string
		denied int
		want   []string
	}{
		"a spot notice":               {fmt.Sprintf(spot, "i-1"), 0, []string{cordon, "evict a", "evict b", "delete r"}},
		"a budget lets no pod go yet": {fmt.Sprintf(spot, "i-1"), 1, []string{cordon, "evict b", "evict a", "delete r"}},
		"of an unknown instance":      {fmt.Sprintf(spot, "i-11"), 0, []string{"delete r"}},
		"of another type":             {`{"detail-type":"EC2 Instance Rebalance Recommendation","detail":{"instance-id":"i-1"}}`, 0, []string{"delete r"}},
		"no JSON":                     {`{`, 0, []string{"delete r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &drill{messages: []message{{"m", "r", c.body}}, pods: []string{"a", "b"}, denied: c.denied}
			server := httptest.NewServer(d)
			defer server.Close()
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			h := &handler{queue: queue{endpoint: server.URL, region: "eu-west-1"}, cluster: cluster{server.URL, "t", server.Client()}, receipts: map[string]string{}}
			ended := make(chan struct{})
			go func() { defer close(ended); h.run(ctx) }()
			for len(d.did()) < len(c.want) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
			<-ended
			if got := d.did(); !slices.Equal(got, c.want) {
				t.Errorf("it did %q, want %q", got, c.want)
			}
		})
	}
}

// AWS accepts the signature: it is the one that AWS's own SDK makes.
func TestTheSignatureIsThatOfTheSDK(t *testing.T) {
	q := queue{region: "eu-west-1", key: "AKIDEXAMPLE", secret: "secret"}
	body := []byte(`{"QueueUrl":"q"}`)
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://sqs.eu-west-1.amazonaws.com/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
		return r
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ours, theirs := request(), request()
	ours.Header.Set("X-Amz-Date", at.Format("20060102T150405Z"))
	q.sign(ours, body)
	err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: q.key, SecretAccessKey: q.secret}, theirs, hash(body), "sqs", q.region, at)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ours.Header.Get("Authorization"), theirs.Header.Get("Authorization"); got != want {
		t.Errorf("the signature is\n%s, want\n%s", got, want)
	}
}
