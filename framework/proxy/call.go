package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// call is a parsed API request. AWS SDKs send SQS requests as JSON with the action in a
// header; older ones send a form with an Action field and read XML. Of requests to
// other services only the name is parsed.
type call struct {
	service   string // as in the credential scope: sqs, ec2, …; empty if unknown
	action    string // API action, else "METHOD /path"
	json      bool   // the JSON protocol of SQS, not the form
	inspected bool   // the request's body was small enough to be read
	client    string // the address that it came from, without its port
	by        string // history.Event.By

	queue    string // name
	account  string // of AWS, that the queue belongs to; empty if the request does not show
	queueURL string
	wait     int // WaitTimeSeconds of ReceiveMessage
	most     int // MaxNumberOfMessages of ReceiveMessage
	entries  []entry

	body  []byte
	form  url.Values // of the query protocol
	inURL bool       // the form came as the URL's query
}

// entry is one message of a DeleteMessage, ChangeMessageVisibility or batch.
type entry struct {
	id     string // within a batch
	handle string
}

const sqsTarget = "AmazonSQS."

// credentialScope finds the access key and the service in a SigV4 Authorization header.
var credentialScope = regexp.MustCompile(`Credential=([^/,\s]*)/\d+/[^/,\s]*/([a-zA-Z0-9.-]+)/aws4_request`)

// parseCall reads a request and its body, which is nil if it was too large to inspect.
// Fields that it cannot parse stay empty: the upstream decides whether a request is
// valid.
func parseCall(r *http.Request, body []byte, inspected bool) call {
	c := call{body: body, inspected: inspected}
	c.client, _, _ = net.SplitHostPort(r.RemoteAddr)
	if m := credentialScope.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		c.service = m[2]
		if by, ok := strings.CutPrefix(m[1], history.AccessKeyPrefix); ok {
			c.by = by
		}
	}
	target := r.Header.Get("X-Amz-Target")
	if action, ok := strings.CutPrefix(target, sqsTarget); ok {
		c.service, c.action, c.json = "sqs", action, true
		c.parseJSON()
		return c
	}
	if target != "" {
		c.action = target[strings.LastIndexByte(target, '.')+1:]
		return c
	}
	if c.form = formOf(r, body); c.form.Get("Action") == "" {
		c.form = r.URL.Query()
		c.inURL = true
	}
	if c.action = c.form.Get("Action"); c.action == "" {
		c.action = r.Method + " " + r.URL.Path
		return c
	}
	if c.isSQS() {
		c.parseForm(r)
	}
	return c
}

func formOf(r *http.Request, body []byte) url.Values {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	return form
}

func (c *call) isSQS() bool { return c.service == "sqs" }

// isReceive reports whether the answer may have messages.
func (c *call) isReceive() bool { return c.isSQS() && c.action == "ReceiveMessage" }

// longPolls reports whether the proxy waits on the client's behalf. The upstream
// refuses a length that SQS does not allow.
func (c *call) longPolls() bool {
	return c.isReceive() && c.inspected && c.wait >= 1 && c.wait <= 20
}

func (c *call) parseJSON() {
	var in struct {
		QueueURL        string `json:"QueueUrl"`
		QueueName       string
		Account         string `json:"QueueOwnerAWSAccountId"`
		WaitTimeSeconds *int
		MaxNumber       *int `json:"MaxNumberOfMessages"`
		ReceiptHandle   string
		Entries         []struct {
			ID            string `json:"Id"`
			ReceiptHandle string
		}
	}
	// The other fields are read despite a field of the wrong type.
	_ = json.Unmarshal(c.body, &in)
	c.setQueue(in.QueueURL, in.QueueName, in.Account)
	if in.WaitTimeSeconds != nil {
		c.wait = *in.WaitTimeSeconds
	}
	c.most = 1
	if in.MaxNumber != nil {
		c.most = *in.MaxNumber
	}
	c.addEntry("", in.ReceiptHandle)
	for _, e := range in.Entries {
		c.addEntry(e.ID, e.ReceiptHandle)
	}
}

func (c *call) parseForm(r *http.Request) {
	queueURL := c.form.Get("QueueUrl")
	if queueURL == "" && strings.Count(r.URL.Path, "/") >= 2 {
		queueURL = (&url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path}).String()
	}
	c.setQueue(queueURL, c.form.Get("QueueName"), c.form.Get("QueueOwnerAWSAccountId"))
	if wait, err := strconv.Atoi(c.form.Get("WaitTimeSeconds")); err == nil {
		c.wait = wait
	}
	c.most = 1
	if most, err := strconv.Atoi(c.form.Get("MaxNumberOfMessages")); err == nil {
		c.most = most
	}
	c.addEntry("", c.form.Get("ReceiptHandle"))
	for _, list := range []string{"DeleteMessageBatchRequestEntry", "ChangeMessageVisibilityBatchRequestEntry"} {
		for i := 1; i <= maxBatch; i++ {
			prefix := fmt.Sprintf("%s.%d.", list, i)
			c.addEntry(c.form.Get(prefix+"Id"), c.form.Get(prefix+"ReceiptHandle"))
		}
	}
}

// maxBatch is how many entries SQS takes in one batch.
const maxBatch = 10

// accountID is an AWS account's.
var accountID = regexp.MustCompile(`^\d{12}$`)

func (c *call) setQueue(queueURL, name, account string) {
	c.queueURL, c.queue, c.account = queueURL, name, account
	u, err := url.Parse(queueURL)
	if err != nil || queueURL == "" {
		return
	}
	c.queue, c.account = path.Base(u.Path), ""
	if owner := path.Base(path.Dir(u.Path)); accountID.MatchString(owner) {
		c.account = owner
	}
}

func (c *call) addEntry(id, handle string) {
	if handle != "" {
		c.entries = append(c.entries, entry{id: id, handle: handle})
	}
}

// withWait returns the request's body and URL query with another WaitTimeSeconds; the
// rest is unchanged. (The signature covers the old body, but LocalStack does not check
// signatures.)
func (c *call) withWait(seconds int, query string) (body []byte, newQuery string, err error) {
	if !c.json {
		form := url.Values{}
		for k, v := range c.form {
			form[k] = v
		}
		form.Set("WaitTimeSeconds", strconv.Itoa(seconds))
		if c.inURL {
			return c.body, form.Encode(), nil
		}
		return []byte(form.Encode()), query, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(c.body, &fields); err != nil {
		return nil, "", fmt.Errorf("read ReceiveMessage request: %w", err)
	}
	fields["WaitTimeSeconds"] = json.RawMessage(strconv.Itoa(seconds))
	body, err = json.Marshal(fields)
	return body, query, err
}

// name is the action as recorded: Action for SQS, service:Action as in IAM for any
// other service.
func (c *call) name() string {
	if c.isSQS() || c.service == "" {
		return c.action
	}
	return c.service + ":" + c.action
}
