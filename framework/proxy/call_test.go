package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestParseCall(t *testing.T) {
	for name, tc := range map[string]struct {
		method, target, header, credential, body string

		action, queue, account string
		wait                   int
		handles                string
	}{
		"JSON receive":       {header: "AmazonSQS.ReceiveMessage", body: `{"QueueUrl":"http://h/0/q","WaitTimeSeconds":20}`, action: "ReceiveMessage", queue: "q", wait: 20},
		"JSON account":       {header: "AmazonSQS.ReceiveMessage", body: `{"QueueUrl":"http://h/111111111111/q"}`, action: "ReceiveMessage", queue: "q", account: "111111111111"},
		"JSON name, account": {header: "AmazonSQS.GetQueueUrl", body: `{"QueueName":"q","QueueOwnerAWSAccountId":"111111111111"}`, action: "GetQueueUrl", queue: "q", account: "111111111111"},
		"JSON path strategy": {header: "AmazonSQS.ReceiveMessage", body: `{"QueueUrl":"http://h/queue/us-east-1/111111111111/q"}`, action: "ReceiveMessage", queue: "q", account: "111111111111"},
		"form account":       {target: "/111111111111/q", credential: "sqs", body: "Action=ReceiveMessage", action: "ReceiveMessage", queue: "q", account: "111111111111"},
		"form name, account": {credential: "sqs", body: "Action=GetQueueUrl&QueueName=q&QueueOwnerAWSAccountId=111111111111", action: "GetQueueUrl", queue: "q", account: "111111111111"},
		"JSON wrong type":    {header: "AmazonSQS.ReceiveMessage", body: `{"WaitTimeSeconds":"20","QueueUrl":"http://h/0/q"}`, action: "ReceiveMessage", queue: "q"},
		"JSON not JSON":      {header: "AmazonSQS.ReceiveMessage", body: `{`, action: "ReceiveMessage"},
		"JSON queue's name":  {header: "AmazonSQS.GetQueueUrl", body: `{"QueueName":"q"}`, action: "GetQueueUrl", queue: "q"},
		"JSON delete":        {header: "AmazonSQS.DeleteMessage", body: `{"QueueUrl":"http://h/0/q","ReceiptHandle":"h1"}`, action: "DeleteMessage", queue: "q", handles: "h1"},
		"JSON batch":         {header: "AmazonSQS.DeleteMessageBatch", body: `{"Entries":[{"Id":"a","ReceiptHandle":"h1"},{"Id":"b","ReceiptHandle":"h2"}]}`, action: "DeleteMessageBatch", handles: "h1 h2"},
		"form by path":       {target: "/0/q", credential: "sqs", body: "Action=ReceiveMessage&WaitTimeSeconds=5", action: "ReceiveMessage", queue: "q", wait: 5},
		"form by URL":        {credential: "sqs", body: "Action=DeleteMessage&QueueUrl=http%3A%2F%2Fh%2F0%2Fq&ReceiptHandle=h1", action: "DeleteMessage", queue: "q", handles: "h1"},
		"form batch":         {target: "/0/q", credential: "sqs", body: "Action=ChangeMessageVisibilityBatch&ChangeMessageVisibilityBatchRequestEntry.1.Id=a&ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle=h1", action: "ChangeMessageVisibilityBatch", queue: "q", handles: "h1"},
		"in the URL's query": {method: http.MethodGet, target: "/0/q?Action=ReceiveMessage&WaitTimeSeconds=3", credential: "sqs", action: "ReceiveMessage", queue: "q", wait: 3},
		"EC2":                {credential: "ec2", body: "Action=RunInstances&WaitTimeSeconds=3", action: "ec2:RunInstances"},
		"another JSON API":   {header: "AWSEvents.PutEvents", credential: "events", body: "{}", action: "events:PutEvents"},
		"REST":               {method: http.MethodGet, target: "/clusters/drill", credential: "eks", action: "eks:GET /clusters/drill"},
		"unsigned":           {method: http.MethodGet, target: "/_localstack/health", action: "GET /_localstack/health"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(tc.method, tc.target, tc.header, tc.credential, tc.body)
			c := parseCall(r, []byte(tc.body), true)
			var handles []string
			for _, e := range c.entries {
				handles = append(handles, e.handle)
			}
			if c.name() != tc.action || c.queue != tc.queue || c.account != tc.account || c.wait != tc.wait || strings.Join(handles, " ") != tc.handles {
				t.Errorf("got %s of queue %q of account %q, wait %d, handles %q", c.name(), c.queue, c.account, c.wait, handles)
			}
		})
	}
}

// The access key of a call shows which handler called.
func TestParseCallOfAnotherHandler(t *testing.T) {
	for key, want := range map[string]string{"test": "", "spotdrill-second": history.OtherHandler, "spotdrill-lane-3": "lane-3", "": "", "second": ""} {
		r := request("", "", "AmazonSQS.ReceiveMessage", "", "")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+key+"/20261126/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0")
		if c := parseCall(r, nil, true); c.by != want || c.service != "sqs" {
			t.Errorf("access key %q: by %q of service %q, want by %q", key, c.by, c.service, want)
		}
	}
}

func request(method, target, header, credential, body string) *http.Request {
	if method == "" {
		method = http.MethodPost
	}
	if target == "" {
		target = "/"
	}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if header != "" {
		r.Header.Set("X-Amz-Target", header)
	} else if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if credential != "" {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260304/us-east-1/"+credential+"/aws4_request, Signature=0")
	}
	return r
}

func TestLongPollOnlyForAllowedWaits(t *testing.T) {
	for wait, want := range map[int]bool{-1: false, 0: false, 1: true, 20: true, 21: false} {
		c := call{service: "sqs", action: "ReceiveMessage", inspected: true, wait: wait}
		if c.longPolls() != want {
			t.Errorf("wait %d: %v", wait, !want)
		}
	}
}

func FuzzParseCall(f *testing.F) {
	f.Add("AmazonSQS.ReceiveMessage", `{"QueueUrl":"http://h/0/q","WaitTimeSeconds":20}`)
	f.Add("", "Action=DeleteMessageBatch&DeleteMessageBatchRequestEntry.1.ReceiptHandle=h")
	f.Add("", "Action=ReceiveMessage&WaitTimeSeconds=1&QueueUrl=%zz")
	f.Fuzz(func(t *testing.T, header, body string) {
		c := parseCall(request("", "", header, "sqs", body), []byte(body), true)
		if !c.longPolls() {
			return
		}
		rewritten, _, err := c.withWait(1, "")
		if err != nil {
			return // refused with an error, not passed on wrongly
		}
		again := parseCall(request("", "", header, "sqs", string(rewritten)), rewritten, true)
		if again.action != c.action || again.queue != c.queue {
			t.Errorf("%q became %q", body, rewritten)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(true, 200, []byte(jsonMessages))
	f.Add(false, 200, []byte(xmlMessages))
	f.Add(true, 400, []byte(`{"__type":"a#b"}`))
	f.Add(false, 400, []byte(`<ErrorResponse><Error><Code>X</Code></Error></ErrorResponse>`))
	f.Fuzz(func(t *testing.T, inJSON bool, status int, body []byte) {
		c := call{service: "sqs", action: "ReceiveMessage", json: inJSON}
		a, err := parseAnswer(&c, status, http.Header{}, body)
		if err != nil && len(a.messages) > 0 {
			t.Error("messages of an answer that does not parse")
		}
	})
}
