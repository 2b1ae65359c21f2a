package proxy

import (
	"encoding/json"
	"encoding/xml"
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

// answer is what the proxy understood of the upstream's response to an SQS call.
type answer struct {
	messages []message       // handed out by ReceiveMessage
	refused  map[string]bool // ids of batch entries that failed
	code     string          // of the error, empty on success
}

type message struct {
	id     string
	handle string
	notice string // id in the body's EventBridge envelope; empty if there is none
}

// parseAnswer reads the response to c. A response that cannot be parsed is an error:
// its messages would be missing from the record.
func parseAnswer(c *call, status int, header http.Header, body []byte) (answer, error) {
	if status != http.StatusOK {
		return answer{code: errorCode(c, header, body)}, nil
	}
	if len(body) == 0 || !c.isReceive() && !c.isBatch() {
		return answer{}, nil
	}
	if c.json {
		return parseJSONAnswer(body)
	}
	return parseXMLAnswer(body)
}

func (c *call) isBatch() bool { return strings.HasSuffix(c.action, "Batch") }

func parseJSONAnswer(body []byte) (answer, error) {
	var out struct {
		Messages []struct{ MessageId, ReceiptHandle, Body string }
		Failed   []struct{ Id string }
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return answer{}, fmt.Errorf("read JSON answer: %w", err)
	}
	var a answer
	for _, m := range out.Messages {
		a.messages = append(a.messages, message{id: m.MessageId, handle: m.ReceiptHandle, notice: noticeID(m.Body)})
	}
	for _, f := range out.Failed {
		a.refuse(f.Id)
	}
	return a, nil
}

func parseXMLAnswer(body []byte) (answer, error) {
	type failed struct {
		ID string `xml:"Id"`
	}
	var out struct {
		Messages []struct {
			MessageID     string `xml:"MessageId"`
			ReceiptHandle string
			Body          string
		} `xml:"ReceiveMessageResult>Message"`
		Undeleted []failed `xml:"DeleteMessageBatchResult>BatchResultErrorEntry"`
		Unchanged []failed `xml:"ChangeMessageVisibilityBatchResult>BatchResultErrorEntry"`
	}
	if err := xml.Unmarshal(body, &out); err != nil {
		return answer{}, fmt.Errorf("read XML answer: %w", err)
	}
	var a answer
	for _, m := range out.Messages {
		a.messages = append(a.messages, message{id: m.MessageID, handle: m.ReceiptHandle, notice: noticeID(m.Body)})
	}
	for _, f := range append(out.Undeleted, out.Unchanged...) {
		a.refuse(f.ID)
	}
	return a, nil
}

func (a *answer) refuse(id string) {
	if a.refused == nil {
		a.refused = map[string]bool{}
	}
	a.refused[id] = true
}

// noticeID is the id of body's EventBridge envelope, if body is one.
func noticeID(body string) string {
	var envelope struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal([]byte(body), &envelope) // most malformed bodies have no id
	return envelope.ID
}

// errorCode is the name of the error, as the protocol of the call spells it.
func errorCode(c *call, header http.Header, body []byte) string {
	if c.json {
		var out struct {
			Type string `json:"__type"`
		}
		_ = json.Unmarshal(body, &out) // the error may not come from SQS
		code := out.Type
		if code == "" {
			code = header.Get("X-Amzn-Errortype")
		}
		return code[strings.LastIndexByte(code, '#')+1:]
	}
	var out struct {
		Code string `xml:"Error>Code"`
	}
	_ = xml.Unmarshal(body, &out)
	return out.Code
}
