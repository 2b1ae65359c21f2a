package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestADuplicateIsDeliveredUnderAHandleOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		most     int32
		after    time.Duration
		receives []string // message ids of one receive after another
	}{
		"in the same batch":         {10, 0, []string{"m-0 m-1 m-0 m-1", ""}},
		"as far as it has room":     {3, 0, []string{"m-0 m-1 m-0", "m-1", ""}},
		"in the next, without room": {1, 0, []string{"m-0", "m-1", "m-0", ""}},
		"later":                     {10, 300 * time.Millisecond, []string{"m-0 m-1", "m-0 m-1", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newFaultyQueue(t, `{"id":"e0"}`, `{"id":"e1"}`)
			q.set(t, fault.Fault{Name: "f", Type: history.Duplicate, Count: 1, After: strict.Duration(c.after)})
			handles := map[string]bool{}
			for i, want := range c.receives {
				began := time.Now()
				messages, err := q.receive(t.Context(), c.most, 1)
				if err != nil || ids(messages) != want {
					t.Fatalf("receive %d: %q, %v; want %q", i, ids(messages), err, want)
				}
				if took := time.Since(began); i == 1 && took < c.after-100*time.Millisecond {
					t.Errorf("the copies came after %s", took)
				}
				for _, m := range messages {
					handles[*m.ReceiptHandle] = true
					if err := q.delete(t.Context(), *m.ReceiptHandle); err != nil {
						t.Error(err)
					}
				}
			}
			for i := range 2 {
				if call := fmt.Sprintf("DeleteMessage h/%d+=", i); !q.reached(call) {
					t.Errorf("%q did not reach the queue: %q", call, q.calls)
				}
			}
			for _, call := range q.calls {
				if strings.Contains(call, "copy") {
					t.Errorf("the queue got the call %q", call)
				}
			}
			awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded })
			hits, deletions := 0, 0
			for _, e := range q.rec.Events() {
				switch {
				case e.Kind == history.FaultHit && e.Message != "" && e.Notice == strings.Replace(e.Message, "m-", "e", 1):
					hits++
				case e.Kind == history.SQSDeleted && e.Message != "":
					deletions++
				}
			}
			if copies := len(handles) - 2; hits != copies || deletions != len(handles) || copies < 1 {
				t.Errorf("%d handles, %d hits and %d deletions on record", len(handles), hits, deletions)
			}
		})
	}
}

// A handler that is killed before it has the answer does not have the copy, either.
func TestADuplicateThatNobodyTookComesAgain(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "twice", Type: history.Duplicate, Count: 1})
	if messages, err := q.receive(t.Context(), 1, 0); err != nil || ids(messages) != "m-0" {
		t.Fatalf("received %q, %v", ids(messages), err)
	}
	q.set(t, fault.Fault{Name: "late", Type: history.Delay, By: strict.Duration(300 * time.Millisecond), Count: 1})
	leaves, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if messages, err := q.receive(leaves, 1, 0); err == nil {
		t.Fatalf("received %q in time", ids(messages))
	}
	if messages, err := q.receive(t.Context(), 1, 2); err != nil || ids(messages) != "m-0" {
		t.Fatalf("received %q, %v", ids(messages), err)
	}
	awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.FaultHit && e.Message == "m-0" })
	awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded && e.Step() == "twice" })
}

// With toAnother a copy waits for a client with another address.
func TestADuplicateCanBeForAnotherClient(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{Name: "f", Type: history.Duplicate, Count: 1, ToAnother: true})
	for i, want := range []string{"m-0", ""} {
		if messages, err := q.receive(t.Context(), 10, 1); err != nil || ids(messages) != want {
			t.Fatalf("receive %d: %q, %v; want %q", i, ids(messages), err, want)
		}
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	q.client = sqs.New(q.client.Options(), func(o *sqs.Options) {
		o.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	})
	if messages, err := q.receive(t.Context(), 10, 1); err != nil || ids(messages) != "m-0" {
		t.Fatalf("the other client receives %q, %v", ids(messages), err)
	}
}

func TestABatchIsReordered(t *testing.T) {
	q := newFaultyQueue(t, "a", "b", "c", "d")
	q.set(t, fault.Fault{Name: "f", Type: history.Reorder, Count: 1})
	for i, want := range []string{"m-0", "m-3 m-2 m-1"} {
		if messages, err := q.receive(t.Context(), []int32{1, 10}[i], 0); err != nil || ids(messages) != want {
			t.Errorf("received %q, %v; want %q", ids(messages), err, want)
		}
	}
	q.wantEvents(t, "fault.begun f reorder", "fault.hit f reorder ReceiveMessage", "fault.ended f count")
}

func TestTheAnswersOfTheQueryProtocolAreChangedAlike(t *testing.T) {
	u := newUpstream(t, scripted())
	target, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := New(target)
	for _, f := range []fault.Fault{{On: history.OnQueue, Name: "turned", Type: history.Reorder, Count: 1}, {On: history.OnQueue, Name: "twice", Type: history.Duplicate, Count: 1}} {
		if err := proxy.begin(f); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	ask := func(form string) string {
		resp, err := formCall(t.Context(), server.URL+"/000000000000/drill", "sqs", form)
		status, body := read(t, resp, err)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", form, status, body)
		}
		return body
	}
	receive := call{service: "sqs", action: "ReceiveMessage"}
	var got []message
	for _, want := range []string{"m2 m1 m2", "m1"} { // the second answer of the upstream is empty
		a, err := parseAnswer(&receive, 200, nil, []byte(ask("Action=ReceiveMessage&MaxNumberOfMessages=3")))
		if err != nil {
			t.Fatal(err)
		}
		var batch []string
		for _, m := range a.messages {
			batch = append(batch, m.id)
		}
		if strings.Join(batch, " ") != want {
			t.Errorf("received %q, want %q", batch, want)
		}
		got = append(got, a.messages...)
	}
	for _, m := range got {
		ask("Action=DeleteMessage&ReceiptHandle=" + m.handle)
	}
	deletions := u.requests()[2:]
	want := []string{"h2", "h1", "h2", "h1"}
	for i, request := range deletions {
		if !strings.HasSuffix(request, "ReceiptHandle="+want[i]) {
			t.Errorf("deletion %d is %q, want %s", i, request, want[i])
		}
	}
}
