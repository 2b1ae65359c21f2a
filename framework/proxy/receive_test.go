package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestProxyWaitsInTheClientsPlace(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, `{}`) })
	endpoint, rec := proxied(t, u)
	began := time.Now()
	resp, err := jsonCall(t.Context(), endpoint, "ReceiveMessage", `{"QueueUrl":"`+testQueue+`","WaitTimeSeconds":1,"MaxNumberOfMessages":7}`)
	if status, body := read(t, resp, err); status != http.StatusOK || body != `{}` {
		t.Errorf("got %d %q", status, body)
	}
	if took := time.Since(began); took < 400*time.Millisecond || took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	requests := u.requests()
	if len(requests) < 2 || len(requests) > 20 || !strings.Contains(requests[1], `"WaitTimeSeconds":1`) || !strings.Contains(requests[1], `"MaxNumberOfMessages":7`) {
		t.Errorf("%d requests upstream: %q", len(requests), requests)
	}
	awaitEvent(t, rec, func(e history.Event) bool { return e.Numbers[history.Polls] == float64(len(requests)) })
	if n := len(rec.Events()); n != 1 {
		t.Errorf("%d records of one call", n)
	}
}

func TestProxyGivesBackWhatADeadClientCannotTake(t *testing.T) {
	for name, tc := range map[string]struct {
		send        func(ctx context.Context, endpoint string) (*http.Response, error)
		messages    string
		queueSuffix string
	}{
		"JSON": {func(ctx context.Context, endpoint string) (*http.Response, error) {
			return jsonCall(ctx, endpoint, "ReceiveMessage", `{"QueueUrl":"`+testQueue+`","WaitTimeSeconds":20}`)
		}, jsonMessages, testQueue},
		"query": {func(ctx context.Context, endpoint string) (*http.Response, error) {
			return formCall(ctx, endpoint+"/000000000000/drill", "sqs", "Action=ReceiveMessage&WaitTimeSeconds=20")
		}, xmlMessages, "/000000000000/drill"},
		"short poll": {func(ctx context.Context, endpoint string) (*http.Response, error) {
			return jsonCall(ctx, endpoint, "ReceiveMessage", `{"QueueUrl":"`+testQueue+`"}`)
		}, jsonMessages, testQueue},
	} {
		t.Run(name, func(t *testing.T) {
			inFlight, gone := make(chan bool), make(chan bool)
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.Header.Get("X-Amz-Target") == "AmazonSQS.ChangeMessageVisibilityBatch" {
					_, _ = io.WriteString(w, `{"Successful":[{"Id":"m0"},{"Id":"m1"}]}`)
					return
				}
				inFlight <- true
				<-gone
				time.Sleep(50 * time.Millisecond) // the proxy hears of it
				_, _ = io.WriteString(w, tc.messages)
			})
			endpoint, rec := proxied(t, u)
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				resp, err := tc.send(ctx, endpoint)
				if err == nil {
					resp.Body.Close()
				}
				left <- err
			}()
			<-inFlight
			leave()
			if err := <-left; err == nil {
				t.Fatal("the client got an answer")
			}
			close(gone)
			back := awaitEvent(t, rec, func(e history.Event) bool { return e.Owner == history.ProxyOwner })
			if back.Status != http.StatusOK || back.Note != "" || back.Numbers[history.Messages] != 2 {
				t.Errorf("recorded %+v", back)
			}
			request := u.requests()[1]
			for _, want := range []string{tc.queueSuffix + `"`, `"ReceiptHandle":"h1","VisibilityTimeout":0`, `"ReceiptHandle":"h2","VisibilityTimeout":0`} {
				if !strings.Contains(request, want) {
					t.Errorf("no %s in %s", want, request)
				}
			}
			for _, e := range rec.Events() {
				if e.Kind == history.SQSReceived {
					t.Errorf("recorded as received: %+v", e)
				}
			}
		})
	}
}

func TestProxyStopsPollingForADeadClient(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, `{}`) })
	endpoint, rec := proxied(t, u)
	ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer leave()
	if resp, err := jsonCall(ctx, endpoint, "ReceiveMessage", `{"QueueUrl":"`+testQueue+`","WaitTimeSeconds":20}`); err == nil {
		resp.Body.Close()
		t.Fatal("the client got an answer")
	}
	awaitEvent(t, rec, func(e history.Event) bool {
		return e.Action == "ReceiveMessage" && e.Status == 0 && strings.Contains(e.Note, "left")
	})
	polls := len(u.requests())
	time.Sleep(4 * minPoll)
	if now := len(u.requests()); now != polls {
		t.Errorf("%d polls after the client's end", now-polls)
	}
}

func TestProxyRecordsADeletionThatTheClientDidNotWaitFor(t *testing.T) {
	inFlight, gone := make(chan bool), make(chan bool)
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		inFlight <- true
		<-gone
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(w, `{}`)
	})
	endpoint, rec := proxied(t, u)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-inFlight
		leave()
	}()
	if resp, err := jsonCall(ctx, endpoint, "DeleteMessage", `{"QueueUrl":"`+testQueue+`","ReceiptHandle":"h9"}`); err == nil {
		resp.Body.Close()
		t.Fatal("the client got an answer")
	}
	close(gone)
	e := awaitEvent(t, rec, func(e history.Event) bool { return e.Kind == history.SQSDeleted })
	if e.Message != "" || e.Note == "" {
		t.Errorf("a handle that nobody got: %+v", e)
	}
}
