package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// pollSeconds is the length of one poll of the upstream. LocalStack ends a poll as
	// soon as a message arrives, so this adds no latency, and one request a second
	// takes hardly any CPU. A poll that outlives its client gives a message back a
	// moment later.
	pollSeconds = 1
	// minPoll limits the rate of polls if the upstream answers without waiting.
	minPoll = 50 * time.Millisecond
	// giveBackTimeout bounds the call that makes messages visible again.
	giveBackTimeout = 5 * time.Second
)

// longPoll polls the upstream in short steps until a message arrives, the client's wait
// is over or the client is gone.
func (x *exchange) longPoll(out *http.Request) (*http.Response, error) {
	body, query, err := x.call.withWait(pollSeconds, out.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(time.Duration(x.call.wait) * time.Second)
	for {
		if err := x.refuse(); err != nil {
			return nil, err
		}
		began := time.Now()
		resp, err := x.forward(out, body, query)
		if err != nil {
			return nil, err
		}
		idle, err := isIdle(&x.call, resp)
		if err != nil {
			return nil, err
		}
		if !idle || x.proxy.copies.isDue(&x.call) || time.Until(deadline) < pollSeconds*time.Second/2 {
			return resp, nil
		}
		if rest := minPoll - time.Since(began); rest > 0 {
			_ = pause(x.client, rest) // the client is checked next
		}
		if x.client.Err() != nil {
			return nil, errClientGone
		}
	}
}

// isIdle reports whether the response is a success without messages. The response can
// be read again.
func isIdle(c *call, resp *http.Response) (bool, error) {
	if resp.StatusCode != http.StatusOK {
		return false, nil
	}
	body, whole, err := peek(resp)
	if err != nil {
		resp.Body.Close()
		return false, err
	}
	if !whole {
		return false, nil
	}
	a, err := parseAnswer(c, resp.StatusCode, resp.Header, body)
	return err == nil && len(a.messages) == 0, nil
}

// giveBack makes messages visible again whose client is gone, and returns the record of
// that. It uses the JSON protocol and the client's own credentials.
func (x *exchange) giveBack(messages []message) history.Event {
	const action = "ChangeMessageVisibilityBatch"
	e := history.NewSQSCall(x.call.queue, action, "client-gone", history.Owner(history.ProxyOwner), history.With(history.Numbers{history.Messages: float64(len(messages))}))
	if len(messages) == 1 {
		e.Message, e.Notice = messages[0].id, messages[0].notice
	}
	status, err := x.makeVisible(action, messages)
	e.Status, e.At = status, x.proxy.records.now()
	if err != nil {
		e.Note = "messages stay invisible for their timeout: " + err.Error()
	}
	return e
}

func (x *exchange) makeVisible(action string, messages []message) (status int, err error) {
	type visibility struct {
		Id, ReceiptHandle string
		VisibilityTimeout int
	}
	in := struct {
		QueueUrl string
		Entries  []visibility
	}{QueueUrl: x.call.queueURL}
	for i, m := range messages {
		in.Entries = append(in.Entries, visibility{Id: fmt.Sprintf("m%d", i), ReceiptHandle: m.handle})
	}
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.proxy.upstream.JoinPath("/").String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := x.header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", sqsTarget+action)
	resp, err := x.proxy.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxInspected))
	if err != nil {
		return resp.StatusCode, err
	}
	a, err := parseAnswer(&call{service: "sqs", action: action, json: true}, resp.StatusCode, resp.Header, text)
	switch {
	case err != nil:
		return resp.StatusCode, err
	case a.code != "" || resp.StatusCode != http.StatusOK:
		return resp.StatusCode, fmt.Errorf("%s: %s", resp.Status, a.code)
	case len(a.refused) > 0:
		return resp.StatusCode, fmt.Errorf("refused for %d of them", len(a.refused))
	}
	return resp.StatusCode, nil
}

// pause waits for d, or returns why ctx ended first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
