// Package proxy is the recording proxy between a handler and LocalStack. It records
// every API call and injects the faults of a scenario. It runs in its own pod; Collect
// reads its records into a history.
package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// maxInspected is the largest body that the proxy reads into memory, in bytes. It is
	// SQS's own limit for a message and for a batch.
	maxInspected = 1 << 20
	// upstreamTimeout bounds the wait for the upstream's answer to one request.
	upstreamTimeout = 60 * time.Second
	// upstreamIdle is shorter than the upstream's own idle timeout, so that no request
	// is sent on a connection that the upstream is closing.
	upstreamIdle = 15 * time.Second
)

// errClientGone is why an answer with messages is not forwarded.
var errClientGone = errors.New("the client is gone")

// Proxy forwards a handler's API calls to LocalStack and records each of them. It waits
// on the handler's behalf when the handler long-polls, so that a killed handler does
// not take a message with it. It can inject faults.
//
// A client is gone when its connection closes. The kernel does that when a process is
// killed. A node that disappears from the network closes no connection: the proxy
// takes a client there as alive until its answer is due.
type Proxy struct {
	upstream  *url.URL
	transport *http.Transport
	records   *records
	handles   *handles
	faults    *fault.Faults
	copies    *copies
	permitted atomic.Pointer[[]string] // the actions of SQS that the policy allows; nil for all
	findings  *findings
	api       *API // nil unless the proxy is one for an API server, too
}

// New returns a proxy for the LocalStack at upstream. It is an http.Handler for the
// API; Admin serves its records and controls its faults.
func New(upstream *url.URL) *Proxy {
	records := newRecords()
	faults := fault.New(func(e history.Event) {
		e.At = records.now()
		records.add(e)
	})
	return &Proxy{
		upstream: upstream,
		transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost:   32,
			IdleConnTimeout:       upstreamIdle,
			ResponseHeaderTimeout: upstreamTimeout,
			DisableCompression:    true,
		},
		records: records,
		handles: newHandles(),
		faults:  faults,
		copies:  &copies{faults: faults},

		findings: &findings{},
	}
}

// ServeHTTP forwards one API call and records it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{proxy: p, client: r.Context(), arrived: p.records.now()}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxInspected+1))
	if err != nil { // the client left in the middle of its request
		http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
		return
	}
	if len(body) <= maxInspected {
		x.call = parseCall(r, body, true)
	} else {
		x.call = parseCall(r, nil, false)
		r.Body = rest{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	}
	reverse := httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(p.upstream)
			pr.Out.Host = pr.In.Host // LocalStack routes by it, and it is signed
			if x.call.isSQS() {
				pr.Out.Header.Del("Accept-Encoding") // the proxy reads the answer
			}
		},
		Transport:      x,
		ModifyResponse: x.inspect,
		ErrorHandler:   x.fail,
	}
	defer x.finish() // even if copying to a client that left panics
	reverse.ServeHTTP(w, r)
	x.passedOn = x.err == nil && http.NewResponseController(w).Flush() == nil
}

// rest is a body whose beginning was read already.
type rest struct {
	io.Reader
	io.Closer
}

// exchange is one API call on its way through the proxy.
type exchange struct {
	proxy    *Proxy
	client   context.Context //nolint:containedctx // ends with the client's connection, not with a call
	call     call
	arrived  time.Duration
	answered time.Duration // when the upstream's answer arrived
	polls    int           // requests to the upstream
	status   int           // HTTP status of the answer
	answer   answer
	header   http.Header // of the request to the upstream
	note     string
	err      error // why the client does not get the upstream's answer
	passedOn bool  // the client's connection accepted the whole answer

	hits    []*fault.Active // faults that hit the call
	lost    *faulted        // why the answer must not be forwarded
	spoiled []history.Event // hits to record if the answer is forwarded
	copies  []copied        // of messages, in the answer
}

// RoundTrip calls the upstream, repeatedly for a long poll. When the client leaves, a
// request to the upstream is not cancelled: its effect must be known.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	x.header = out.Header
	for _, answer := range []func() (*http.Response, bool){x.lifecycle, x.instanceStatus} {
		if resp, ok := answer(); ok {
			return resp, nil
		}
	}
	if !x.call.isReceive() { // that is reached with its messages
		x.reach()
	}
	poll := x.longPoll
	if !x.call.longPolls() {
		poll = x.shortPoll
	}
	resp, err := poll(out)
	if err != nil {
		return nil, err
	}
	if err := x.spoil(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// shortPoll calls the upstream once, unless a fault refuses the call.
func (x *exchange) shortPoll(out *http.Request) (*http.Response, error) {
	if err := x.refuse(); err != nil {
		return nil, err
	}
	if x.call.isSQS() && deletes(x.call.action) {
		return x.deletion(out)
	}
	return x.forward(out, x.call.body, out.URL.RawQuery)
}

func (x *exchange) forward(out *http.Request, body []byte, query string) (*http.Response, error) {
	req := out.Clone(context.WithoutCancel(out.Context()))
	body, query = x.proxy.handles.resolve(&x.call, body, query)
	req.URL.RawQuery = query
	if x.call.inspected {
		req.Body, req.ContentLength = http.NoBody, int64(len(body))
		if len(body) > 0 {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			req.Body, _ = req.GetBody() // never fails
		}
	}
	x.polls++
	return x.proxy.transport.RoundTrip(req)
}

// inspect parses the upstream's answer before the client gets it.
func (x *exchange) inspect(resp *http.Response) error {
	x.answered = x.proxy.records.now()
	x.status = resp.StatusCode
	if !x.call.isSQS() {
		return nil
	}
	body, whole, err := peek(resp)
	if err != nil {
		return err
	}
	if !whole {
		x.note = "answer not inspected: larger than 1 MiB"
		return nil
	}
	if x.answer, err = parseAnswer(&x.call, x.status, resp.Header, body); err != nil {
		x.note = "answer not inspected: " + err.Error()
		return nil //nolint:nilerr // the note reports it, and the client gets the answer
	}
	x.proxy.handles.add(x.answer.messages)
	if x.lost != nil {
		return *x.lost
	}
	if len(x.answer.messages) > 0 && x.client.Err() != nil {
		return errClientGone
	}
	return nil
}

// peek reads an answer's body and makes it readable again. It is not whole if it is too
// large to inspect.
func peek(resp *http.Response) (body []byte, whole bool, err error) {
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxInspected+1))
	if err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	resp.Body = rest{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	return body, len(body) <= maxInspected, nil
}

// fail answers the client if there is no answer to forward.
func (x *exchange) fail(w http.ResponseWriter, _ *http.Request, err error) {
	x.err = err
	if errors.Is(err, errClientGone) {
		panic(http.ErrAbortHandler) // an empty answer would be wrong
	}
	if f, ok := errors.AsType[faulted](err); ok {
		x.answerFault(w, f)
		return
	}
	if r, ok := errors.AsType[refused](err); ok {
		x.note = cmp.Or(r.note, x.note)
		x.answerRefusal(w, r.refusal)
		return
	}
	x.status, x.note = http.StatusBadGateway, err.Error()
	http.Error(w, "spotdrill proxy: "+err.Error(), http.StatusBadGateway)
}

// finish records the call and what happened to its messages.
func (x *exchange) finish() {
	if x.answered == 0 {
		x.answered = x.proxy.records.now()
	}
	x.proxy.records.add(x.events()...)
	if x.lost == nil && !x.passedOn {
		if messages := x.proxy.handles.own(x.answer.messages); len(messages) > 0 {
			x.proxy.records.add(x.giveBack(messages))
		}
		for _, c := range x.copies { // SQS also redelivers messages that no client received
			x.proxy.copies.hold(c)
		}
	}
	for _, f := range x.hits {
		x.proxy.faults.Done(f)
	}
}
