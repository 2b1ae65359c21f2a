package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// api answers as SQS and EventBridge do, and keeps the calls.
func api(t *testing.T, answer string) (url string, calls *[]map[string]any) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	calls = new([]map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call := map[string]any{}
		if err := json.Unmarshal(body, &call); err != nil {
			t.Errorf("calls %q: %v", body, err)
		}
		call["target"] = r.Header.Get("X-Amz-Target")
		*calls = append(*calls, call)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func TestSendToAQueue(t *testing.T) {
	url, calls := api(t, `{"MessageId": "m-1"}`)
	stdout, stderr, code := spotdrill(t, "send", "state-change", "--instance", "i-0123456789abcdef0", "--instance", "i-0123456789abcdef1",
		"--detail", "state=stopped", "--queue-url", "https://sqs.eu-west-1.amazonaws.com/1/mine", "--endpoint-url", url, "--region", "eu-west-1")
	if code != 0 || stdout != "m-1\nm-1\n" || len(*calls) != 2 {
		t.Fatalf("exit code %d, %d calls, printed %q: %s", code, len(*calls), stdout, stderr)
	}
	call := (*calls)[1]
	body, _ := call["MessageBody"].(string)
	var event struct {
		Type   string `json:"detail-type"`
		Region string
		Detail map[string]string
	}
	if err := json.Unmarshal([]byte(body), &event); err != nil {
		t.Fatal(err)
	}
	if call["target"] != "AmazonSQS.SendMessage" || call["QueueUrl"] != "https://sqs.eu-west-1.amazonaws.com/1/mine" ||
		event.Type != "EC2 Instance State-change Notification" || event.Region != "eu-west-1" ||
		event.Detail["instance-id"] != "i-0123456789abcdef1" || event.Detail["state"] != "stopped" {
		t.Errorf("calls %v", call)
	}
}

func TestSendToABus(t *testing.T) {
	url, calls := api(t, `{"FailedEntryCount": 0, "Entries": [{"EventId": "e-1"}]}`)
	stdout, stderr, code := spotdrill(t, "send", "spot-interruption", "--instance", "i-0123456789abcdef0",
		"--event-bus", "drills", "--endpoint-url", url, "--region", "us-east-1")
	if code != 0 || stdout != "e-1\n" || len(*calls) != 1 {
		t.Fatalf("exit code %d, %d calls, printed %q: %s", code, len(*calls), stdout, stderr)
	}
	entry := (*calls)[0]["Entries"].([]any)[0].(map[string]any)
	if entry["EventBusName"] != "drills" || entry["Source"] != "aws.ec2" || entry["DetailType"] != "EC2 Spot Instance Interruption Warning" {
		t.Errorf("put %v", entry)
	}
}

// AWS keeps its own sources to itself; the error names the alternative.
func TestSendToAWSsOwnBusSaysWhatToDo(t *testing.T) {
	url, _ := api(t, `{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "Not authorized for the source."}]}`)
	stdout, stderr, code := spotdrill(t, "send", "spot-interruption", "--instance", "i-0123456789abcdef0",
		"--event-bus", "default", "--endpoint-url", url, "--region", "us-east-1")
	if code != exitFailed || !strings.Contains(stderr, "send them directly to the queue") || stdout != "refused\n" {
		t.Errorf("exit code %d, printed %q: %s", code, stdout, stderr)
	}
}

func TestSendDryRunPrintsTheBody(t *testing.T) {
	stdout, stderr, code := spotdrill(t, "send", "scheduled-change", "--instance", "i-0123456789abcdef0,i-0123456789abcdef1", "--dry-run")
	if code != 0 || strings.Count(stdout, "\n") != 1 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `{"entityValue":"i-0123456789abcdef1"}`) {
		t.Errorf("exit code %d, printed %q: %s", code, stdout, stderr)
	}
}
