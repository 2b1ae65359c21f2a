package builtin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheQueueIsReachedAtTheConfiguredEndpoint(t *testing.T) {
	s := &sqsServer{failing: map[string]int{"GetQueueUrl": 2}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Host = r.Host
		out, err := s.Do(r)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", out.Header.Get("Content-Type"))
		w.WriteHeader(out.StatusCode)
		_, _ = io.Copy(w, out.Body)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cfg := Config{QueueName: "drill", Endpoint: server.URL, Region: "eu-west-1"}
	loaded, err := loadAWS(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	q, err := openQueue(ctx, loaded, cfg, newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("openQueue: %v", err)
	}
	if q.url != "http://sqs.nowhere.invalid:4566/000000000000/drill" {
		t.Errorf("the queue's URL is %s", q.url)
	}
	s.put(spot)
	messages, err := q.receive(ctx, longPoll)
	if err != nil || len(messages) != 1 {
		t.Fatalf("receive: %d messages, %v", len(messages), err)
	}
	if err := q.delete(ctx, messages[0]); err != nil {
		t.Fatalf("delete: %v", err)
	}
	for _, call := range s.calls {
		if !strings.HasSuffix(server.URL, call.host) {
			t.Errorf("%s went to %s", call.action, call.host)
		}
	}
	in := s.calls[len(s.calls)-2].input
	if in["MaxNumberOfMessages"] != 10.0 || in["WaitTimeSeconds"] != 20.0 || in["VisibilityTimeout"] != 20.0 {
		t.Errorf("ReceiveMessage was called with %v", in)
	}
}

func TestADeleteIsTriedUntilTheMessageWouldComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sqsServer{failing: map[string]int{"DeleteMessage": 1000}}
		q := s.queue(newMetrics(prometheus.NewRegistry()))
		begun := time.Now()
		err := q.delete(t.Context(), message(spot))
		if err == nil || time.Since(begun) != visibility {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		if n := len(s.calls); n < 12 || n > 16 { // 0.1, 0.2, 0.4, 0.8, 1.6 and then 2 s apart
			t.Errorf("%d calls in %s: the pauses grow beyond 2 s or not at all", n, visibility)
		}
	})
}

// Only the receipt handle of the next delivery can delete the message.
func TestAnExpiredReceiptHandleIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sqsServer{stale: true}
		q := s.queue(newMetrics(prometheus.NewRegistry()))
		if err := q.delete(t.Context(), message(spot)); err == nil || len(s.calls) != 1 {
			t.Errorf("%d calls, %v", len(s.calls), err)
		}
	})
}
