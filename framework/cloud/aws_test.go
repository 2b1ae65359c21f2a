package cloud

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// fakeAWS answers every API action as the test requires.
func fakeAWS(t *testing.T, answer func(action, body string) (int, string)) *AWS {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		target := r.Header.Get("X-Amz-Target")
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		status, text := answer(target[strings.LastIndexByte(target, '.')+1:], string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return Connect(server.URL, testRegion)
}

func TestConnectIgnoresTheUsersAWSAndProxySettings(t *testing.T) {
	const elsewhere = "http://127.0.0.1:1"
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": elsewhere, "AWS_ENDPOINT_URL_EVENTBRIDGE": elsewhere, "AWS_ENDPOINT_URL_SQS": elsewhere,
		"AWS_CA_BUNDLE": "/does/not/exist", "AWS_PROFILE": "production", "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "AKIAREAL", "AWS_SECRET_ACCESS_KEY": "secret", "HTTP_PROXY": elsewhere, "http_proxy": elsewhere,
	} {
		t.Setenv(name, value)
	}
	var authorization string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"FailedEntryCount":0,"Entries":[{"EventId":"e1"}]}`)
	}))
	defer server.Close()
	ids, err := Connect(server.URL, testRegion).Put(t.Context(), Notice{Type: history.SpotInterruption, Instances: []string{"i-0aaa"}})
	if err != nil || len(ids) != 1 || ids[0] != "e1" {
		t.Fatalf("got %q, %v", ids, err)
	}
	if !strings.Contains(authorization, "Credential="+Account+"/") || !strings.Contains(authorization, "/"+testRegion+"/events/") {
		t.Errorf("signed as %q", authorization)
	}
}

func TestPutSendsOneEventForEachInstance(t *testing.T) {
	var calls []int
	a := fakeAWS(t, func(_, body string) (int, string) {
		var in struct {
			Entries []struct{ Source, DetailType, Detail string }
		}
		if err := json.Unmarshal([]byte(body), &in); err != nil {
			t.Error(err)
		}
		calls = append(calls, len(in.Entries))
		out := make([]string, len(in.Entries))
		for i, e := range in.Entries {
			var detail map[string]string
			if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
				t.Error(err)
			}
			out[i] = fmt.Sprintf(`{"EventId":"for %s"}`, detail["instance-id"])
		}
		return http.StatusOK, `{"FailedEntryCount":0,"Entries":[` + strings.Join(out, ",") + `]}`
	})
	instances := make([]string, 12)
	for i := range instances {
		instances[i] = fmt.Sprintf("i-%02d", i)
	}
	ids, err := a.Put(t.Context(), Notice{Type: history.StateChange, Instances: instances})
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) != 12 || ids[0] != "for i-00" || ids[11] != "for i-11" {
		t.Errorf("ids %q", ids)
	}
	if len(calls) != 2 || calls[0] != 10 || calls[1] != 2 {
		t.Errorf("want calls of 10 and 2 events, got %v", calls)
	}
}

func TestPutReportsRefusedEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		status       int
		answer, want string
	}{
		"one refused":    {http.StatusOK, `{"FailedEntryCount":1,"Entries":[{"EventId":"e1"},{"ErrorCode":"Throttled","ErrorMessage":"slow down"}]}`, "slow down"},
		"count only":     {http.StatusOK, `{"FailedEntryCount":1,"Entries":[{"EventId":"e1"},{"EventId":"e2"}]}`, "without a reason"},
		"answer missing": {http.StatusOK, `{"FailedEntryCount":0,"Entries":[{"EventId":"e1"}]}`, "sent 2 events, got 1"},
		"server error":   {http.StatusInternalServerError, `{"__type":"InternalException","message":"broken"}`, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			a := fakeAWS(t, func(string, string) (int, string) { calls++; return tc.status, tc.answer })
			_, err := a.Put(t.Context(), Notice{Type: history.SpotInterruption, Instances: []string{"i-0aaa", "i-0bbb"}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q in %v", tc.want, err)
			}
			if calls != 1 {
				t.Errorf("tried %d times", calls)
			}
		})
	}
}

func TestQueueNeedsItsStack(t *testing.T) {
	a := Connect("http://127.0.0.1:1", testRegion)
	if _, err := a.SendRaw(t.Context(), "x"); err == nil {
		t.Error("SendRaw: no error")
	}
	if err := a.Purge(t.Context()); err == nil {
		t.Error("Purge: no error")
	}
	if _, _, err := a.Depth(t.Context()); err == nil {
		t.Error("Depth: no error")
	}
	if err := a.DeployStack(t.Context(), "no_underscore"); err == nil || !strings.Contains(err.Error(), "no_underscore") {
		t.Errorf("DeployStack: %v", err)
	}
}

func TestPurgeChecksThatNothingIsLeft(t *testing.T) {
	a := fakeAWS(t, func(action, _ string) (int, string) {
		if action == "GetQueueAttributes" {
			return http.StatusOK, `{"Attributes":{"ApproximateNumberOfMessages":"1","ApproximateNumberOfMessagesNotVisible":"2"}}`
		}
		return http.StatusOK, `{}`
	})
	a.queueURL = testQueue
	if err := a.Purge(t.Context()); err == nil || !strings.Contains(err.Error(), "1 visible and 2 invisible") {
		t.Errorf("got %v", err)
	}
}

func TestQueueURLAtTheProxy(t *testing.T) {
	a := Connect("http://127.0.0.1:1", testRegion)
	if got := a.QueueURL("http://proxy:4566"); got != "" {
		t.Errorf("before the stack: %q", got)
	}
	a.queueURL = testQueue
	if got := a.QueueURL("http://proxy:4566/"); got != "http://proxy:4566/000000000000/drill" {
		t.Errorf("got %q", got)
	}
	if got := a.QueueURL(""); got != a.queueURL {
		t.Errorf("got %q", got)
	}
}

func TestWaitReadySaysWhatItLastSaw(t *testing.T) {
	services := `{"services":{"sqs":"running","events":"available","ec2":"available","cloudformation":"starting"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, services) }))
	defer server.Close()
	a := Connect(server.URL, testRegion)
	missing := a.checkHealth(t.Context())
	if missing == nil || !strings.Contains(missing.Error(), `cloudformation is "starting"`) {
		t.Errorf("got %v", missing)
	}
	services = strings.Replace(services, "starting", "available", 1)
	began := time.Now()
	if err := a.WaitReady(t.Context()); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
