package proxy

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// failedEntry is an entry of a deletion that has no effect, and why.
type failedEntry struct {
	entry
	refusal
}

// deletion calls the upstream for a deletion. What FailedEntry hits does not reach it.
func (x *exchange) deletion(out *http.Request) (*http.Response, error) {
	failed := x.failedEntries()
	if len(failed) == 0 {
		return x.forward(out, x.call.body, out.URL.RawQuery)
	}
	if !x.call.isBatch() {
		return nil, refused{refusal: failed[0].refusal}
	}
	resp := &http.Response{
		StatusCode: http.StatusOK, Request: out, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader("{}")),
	}
	if !x.call.json {
		resp.Header.Set("Content-Type", "text/xml")
		resp.Body = io.NopCloser(strings.NewReader(xml.Header + `<DeleteMessageBatchResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><DeleteMessageBatchResult></DeleteMessageBatchResult></DeleteMessageBatchResponse>`))
	}
	if len(failed) < len(x.call.entries) { // SQS refuses an empty batch
		body, query, err := x.call.without(failed, out.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		if resp, err = x.forward(out, body, query); err != nil {
			return nil, err
		}
	}
	return resp, x.addFailed(resp, failed)
}

// failedEntries are the entries of the call whose receipt handle has expired, and the one
// that a fault hits now.
func (x *exchange) failedEntries() []failedEntry {
	var failed []failedEntry
	for _, e := range x.call.entries {
		if x.proxy.handles.isExpired(e.handle) {
			failed = append(failed, failedEntry{e, codedRefusal(history.ReceiptHandleIsInvalid)})
		}
	}
	if len(failed) == len(x.call.entries) {
		return failed
	}
	f := x.take(history.FailedEntry)
	if f == nil {
		return failed
	}
	hit := x.call.entries[slices.IndexFunc(x.call.entries, func(e entry) bool { return !x.proxy.handles.isExpired(e.handle) })]
	refusal, _ := refusalOf(f.Fault) // this type has one
	if f.Code == history.ReceiptHandleIsInvalid {
		x.proxy.handles.expire(hit.handle)
	}
	m, _ := x.proxy.handles.find(hit.handle)
	x.proxy.records.add(f.Hit(history.At(x.proxy.records.now()), history.Action(x.call.action), history.Message(m.id), history.Notice(m.notice)))
	x.note = faulted{f}.Error()
	return append(failed, failedEntry{hit, refusal})
}

// without returns the request's body and URL query without these entries.
func (c *call) without(failed []failedEntry, query string) (body []byte, newQuery string, err error) {
	isFailed := func(id string) bool {
		return slices.ContainsFunc(failed, func(f failedEntry) bool { return f.id == id })
	}
	if !c.json {
		form := c.formWithout(isFailed)
		if c.inURL {
			return c.body, form.Encode(), nil
		}
		return []byte(form.Encode()), query, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.body, &fields); err != nil {
		return nil, "", fmt.Errorf("read the batch: %w", err)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(fields["Entries"], &entries); err != nil {
		return nil, "", fmt.Errorf("read the entries of the batch: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(raw json.RawMessage) bool {
		var e struct{ Id string }
		return json.Unmarshal(raw, &e) == nil && isFailed(e.Id)
	})
	if fields["Entries"], err = json.Marshal(entries); err != nil {
		return nil, "", err
	}
	body, err = json.Marshal(fields)
	return body, query, err
}

// entryField is a field of a batch's entry in a form, such as
// DeleteMessageBatchRequestEntry.1.Id.
var entryField = regexp.MustCompile(`^(\w+Entry)\.(\d+)\.(\w+)$`)

// formWithout is the form without some entries. The others are numbered again.
func (c *call) formWithout(isFailed func(id string) bool) url.Values {
	form, numbers := url.Values{}, map[string]int{} // the new number of each entry, by its old one
	for old, next := 1, 1; old <= maxBatch; old++ {
		if id := c.form.Get(fmt.Sprintf("DeleteMessageBatchRequestEntry.%d.Id", old)); id != "" && !isFailed(id) {
			numbers[strconv.Itoa(old)] = next
			next++
		}
	}
	for name, values := range c.form {
		field := entryField.FindStringSubmatch(name)
		switch {
		case field == nil:
			form[name] = values
		case numbers[field[2]] > 0:
			form[fmt.Sprintf("%s.%d.%s", field[1], numbers[field[2]], field[3])] = values
		}
	}
	return form
}

// addFailed adds the entries to those that failed in the answer to a batch.
func (x *exchange) addFailed(resp *http.Response, failed []failedEntry) error {
	body, whole, err := peek(resp)
	if err != nil || !whole || resp.StatusCode != http.StatusOK {
		return err
	}
	if x.call.json {
		body, err = addFailedJSON(body, failed)
	} else {
		body, err = addFailedXML(body, failed)
	}
	if err != nil {
		return fmt.Errorf("add the failed entries: %w", err)
	}
	replaceBody(resp, body)
	return nil
}

func addFailedJSON(body []byte, failed []failedEntry) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	var list []any
	if old := fields["Failed"]; old != nil {
		if err := json.Unmarshal(old, &list); err != nil {
			return nil, err
		}
	}
	for _, f := range failed {
		list = append(list, map[string]any{"Id": f.id, "Code": f.queryCode(), "Message": f.message, "SenderFault": f.blame == sender})
	}
	if fields["Successful"] == nil {
		fields["Successful"] = json.RawMessage("[]")
	}
	var err error
	if fields["Failed"], err = json.Marshal(list); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

var (
	noDeletions  = regexp.MustCompile(`<DeleteMessageBatchResult\s*/>`)
	endDeletions = []byte("</DeleteMessageBatchResult>")
)

func addFailedXML(body []byte, failed []failedEntry) ([]byte, error) {
	body = noDeletions.ReplaceAll(body, append([]byte("<DeleteMessageBatchResult>"), endDeletions...))
	at := bytes.Index(body, endDeletions)
	if at < 0 {
		return nil, errors.New("no DeleteMessageBatchResult")
	}
	var list bytes.Buffer
	for _, f := range failed {
		one, err := xml.Marshal(struct {
			XMLName           xml.Name `xml:"BatchResultErrorEntry"`
			Id, Code, Message string
			SenderFault       bool
		}{Id: f.id, Code: f.queryCode(), Message: f.message, SenderFault: f.blame == sender})
		if err != nil {
			return nil, err
		}
		list.Write(one)
	}
	return slices.Concat(body[:at], list.Bytes(), body[at:]), nil
}
