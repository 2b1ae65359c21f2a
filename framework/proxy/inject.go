package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// faulted is why a client does not get the upstream's answer.
type faulted struct{ *fault.Active }

func (f faulted) Error() string { return fmt.Sprintf("fault %s: %s", f.Name, f.Type) }

// refuse returns the fault or the policy that refuses the call, if one does. It is called before each
// request to the upstream, so that a new fault also hits long polls that have begun.
func (x *exchange) refuse() error {
	types := []history.FaultType{history.Throttle, history.ServerError, history.ClientError, history.Reset, history.BlackHole}
	switch {
	case x.call.launches():
		types = []history.FaultType{history.NoCapacity}
	case !x.call.isSQS():
		return nil
	case x.call.by == "" && !x.proxy.allows(x.call.action):
		return refused{codedRefusal(history.AccessDenied), "the IAM policy does not allow sqs:" + history.SQSPermission(x.call.action)}
	}
	f := x.hitBy(types...)
	if f == nil {
		return nil
	}
	if f.Type == history.BlackHole {
		select {
		case <-f.Over():
		case <-x.client.Done():
		}
	}
	return faulted{f}
}

// reach counts the call for the faults that start at one.
func (x *exchange) reach() {
	if x.call.isSQS() {
		x.proxy.faults.Reach(history.OnQueue, x.call.action, "", "")
	}
}

// spoil applies faults to the upstream's answer.
func (x *exchange) spoil(resp *http.Response) error {
	if !x.call.isSQS() || resp.StatusCode != http.StatusOK {
		return nil
	}
	if x.call.isReceive() && x.proxy.faults.Any() {
		switch idle, err := isIdle(&x.call, resp); {
		case err != nil:
			return err
		case !idle:
			x.reach()
		}
		if err := x.spoilBatch(resp); err != nil {
			return err
		}
	}
	empty := false
	if x.call.isReceive() {
		var err error
		if empty, err = isIdle(&x.call, resp); err != nil {
			return err
		}
	}
	if !empty { // to lose an answer without messages would be no loss
		if f := x.hitBy(history.LostAnswer); f != nil {
			x.lost = &faulted{f}
		}
	}
	if f := x.hitBy(history.Delay); f != nil {
		_ = pause(x.client, f.By.D()) // the next step checks whether the client is gone
	}
	return nil
}

// spoilBatch reverses the messages of an answer and adds copies.
func (x *exchange) spoilBatch(resp *http.Response) error {
	body, whole, err := peek(resp)
	if err != nil || !whole {
		return err
	}
	b, err := parseBatch(&x.call, body)
	if err != nil {
		return nil //nolint:nilerr // inspect reports an answer that cannot be read
	}
	changed := false
	if len(b.messages) > 1 {
		if f := x.take(history.Reorder); f != nil {
			slices.Reverse(b.messages)
			slices.Reverse(b.known)
			x.spoiled = append(x.spoiled, f.Hit())
			changed = true
		}
	}
	if len(b.messages) > 0 {
		if f := x.take(history.Duplicate); f != nil {
			x.duplicate(f, b)
		}
	}
	for _, c := range x.proxy.copies.due(&x.call, x.call.most-len(b.messages)) {
		b.messages = append(b.messages, c.raw)
		x.spoiled = append(x.spoiled, c.fault.Hit(history.Message(c.id), history.Notice(c.notice)))
		x.hits = append(x.hits, c.fault)
		x.copies = append(x.copies, c)
		changed = true
	}
	if !changed {
		return nil
	}
	if body, err = b.encode(); err != nil {
		return fmt.Errorf("encode the changed answer: %w", err)
	}
	replaceBody(resp, body)
	return nil
}

func replaceBody(resp *http.Response, body []byte) {
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	resp.Header.Del("X-Amz-Crc32")
}

// duplicate holds a copy of each message. As in SQS, every delivery has its own receipt
// handle and each of them can delete the message; the upstream knows only the first.
func (x *exchange) duplicate(f *fault.Active, b batch) {
	for i, raw := range b.messages {
		m := b.known[i]
		original := m.handle
		m.handle = "copy-" + uuid.NewString()
		again, err := b.withHandle(raw, m.handle)
		if err != nil {
			x.note = "message not duplicated: " + err.Error()
			continue
		}
		x.proxy.handles.alias(m.handle, original)
		x.proxy.copies.hold(copied{
			fault: f, json: x.call.json, queue: x.call.queue, raw: again, message: m, due: time.Now().Add(f.After.D()), client: x.call.client,
		})
	}
}

func (x *exchange) answerFault(w http.ResponseWriter, f faulted) {
	x.note = f.Error()
	if f.Type == history.NoCapacity {
		x.answerNoCapacity(w, f.ErrorCode())
		return
	}
	if refusal, ok := refusalOf(f.Fault); ok {
		x.answerRefusal(w, refusal)
		return
	}
	reset(w)
}

func (x *exchange) answerRefusal(w http.ResponseWriter, refusal refusal) {
	x.status, x.answer.code = refusal.status, refusal.code
	body, contentType := refusal.body(x.call.json)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", uuid.NewString())
	if x.call.json {
		w.Header().Set("X-Amzn-Query-Error", refusal.queryCode()+";"+refusal.blame)
	}
	w.WriteHeader(x.status)
	_, _ = w.Write(body) // the client may be gone
}

// reset closes the connection with a TCP RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes it with a FIN
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, Close fails, too
	}
	_ = conn.Close()
}
