package proxy

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"

	"github.com/spotdrill/spotdrill/framework/history"
)

// batch is a parsed answer to ReceiveMessage: every message as the upstream wrote it,
// and the text around them.
type batch struct {
	messages [][]byte
	known    []message // the same messages, parsed

	json       bool
	fields     map[string]json.RawMessage // of the JSON answer
	head, tail []byte                     // of the XML answer
}

// In XML bodies are escaped, so these tags can only be the answer's own.
var (
	xmlMessage = regexp.MustCompile(`(?s)<Message>.*?</Message>`)
	xmlHandle  = regexp.MustCompile(`<ReceiptHandle>[^<]*</ReceiptHandle>`)
	xmlNone    = regexp.MustCompile(`<ReceiveMessageResult\s*/>`)
	xmlResult  = regexp.MustCompile(`<ReceiveMessageResult>`)
)

func parseBatch(c *call, body []byte) (batch, error) {
	b := batch{json: c.json}
	var err error
	if c.json {
		err = b.parseJSON(body)
	} else {
		err = b.parseXML(body)
	}
	if err != nil {
		return batch{}, fmt.Errorf("parse the answer: %w", err)
	}
	a, err := parseAnswer(c, 200, nil, body)
	if err == nil && len(a.messages) != len(b.messages) {
		err = fmt.Errorf("%s of %d found", history.Count(len(b.messages), "message"), len(a.messages))
	}
	b.known = a.messages
	return b, err
}

func (b *batch) parseJSON(body []byte) error {
	b.fields = map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &b.fields); err != nil {
		return err
	}
	if b.fields["Messages"] == nil {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b.fields["Messages"], &list); err != nil {
		return err
	}
	for _, m := range list {
		b.messages = append(b.messages, m)
	}
	return nil
}

func (b *batch) parseXML(body []byte) error {
	body = xmlNone.ReplaceAll(body, []byte("<ReceiveMessageResult></ReceiveMessageResult>"))
	found := xmlMessage.FindAllIndex(body, -1)
	if len(found) == 0 {
		result := xmlResult.FindIndex(body)
		if result == nil {
			return errors.New("no ReceiveMessageResult")
		}
		b.head, b.tail = body[:result[1]], body[result[1]:]
		return nil
	}
	for _, at := range found {
		b.messages = append(b.messages, body[at[0]:at[1]])
	}
	b.head, b.tail = body[:found[0][0]], body[found[len(found)-1][1]:]
	return nil
}

func (b batch) encode() ([]byte, error) {
	if !b.json {
		return bytes.Join([][]byte{b.head, bytes.Join(b.messages, nil), b.tail}, nil), nil
	}
	list := make([]json.RawMessage, len(b.messages))
	for i, m := range b.messages {
		list[i] = m
	}
	messages, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	b.fields["Messages"] = messages
	return json.Marshal(b.fields)
}

func (b batch) withHandle(raw []byte, handle string) ([]byte, error) {
	if !b.json {
		var escaped bytes.Buffer
		if err := xml.EscapeText(&escaped, []byte(handle)); err != nil {
			return nil, err
		}
		return xmlHandle.ReplaceAllLiteral(raw, []byte("<ReceiptHandle>"+escaped.String()+"</ReceiptHandle>")), nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(handle)
	if err != nil {
		return nil, err
	}
	fields["ReceiptHandle"] = quoted
	return json.Marshal(fields)
}
