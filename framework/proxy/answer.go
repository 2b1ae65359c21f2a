package proxy

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
)

// answer is what the proxy understood of the upstream's response to an SQS call.
type answer struct {
	messages []message       // handed out by ReceiveMessage
	refused  map[string]bool // ids of batch entries that failed
	code     string          // of the error, empty on success
}

// message is a message that a client received.
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
