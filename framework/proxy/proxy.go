package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// maxInspected is the largest body that the proxy reads into memory, in
	// bytes; it is SQS's own limit for a message and for a batch.
	maxInspected = 1 << 20
	// upstreamTimeout bounds the wait for the upstream's answer to one request.
	upstreamTimeout = 60 * time.Second
	// upstreamIdle is shorter than the upstream's own idle timeout: a request
	// must not be sent into a connection that is being closed.
	upstreamIdle = 15 * time.Second
)

// errClientGone is why an answer with messages is not passed on.
var errClientGone = errors.New("the client is gone")

// Proxy stands between a handler and LocalStack. It passes every API call on,
// records it, and waits on the handler's behalf where the handler long-polls,
// so that a handler that was killed takes no message with it. On request it
// does things wrong: see Fault.
//
// It knows that a client is gone when its connection closes, which the kernel
// of a killed process sees to. A machine that vanishes from the network closes
// nothing: a client on a node that is taken stays alive to the proxy until it
// should have answered.
type Proxy struct {
	upstream  *url.URL
	transport *http.Transport
	records   *records
	handles   *handles
	faults    *faults
}

// New returns a proxy for the LocalStack at upstream. It is an
// http.Handler for the API; Admin serves what it sees and sets its faults.
func New(upstream *url.URL) *Proxy {
	records := newRecords()
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
		faults:  &faults{records: records},
	}
}

// ServeHTTP passes one API call on and records it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{proxy: p, client: r.Context(), arrived: p.records.now()}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxInspected+1))
	if err != nil { // the client left before it had said what it wants
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
			pr.Out.Host = pr.In.Host // LocalStack routes by it and it is signed
			if x.call.isSQS() {
				pr.Out.Header.Del("Accept-Encoding") // the answer will be read
			}
		},
		Transport:      x,
		ModifyResponse: x.inspect,
		ErrorHandler:   x.fail,
	}
	defer x.finish() // also when the copy to a client that left panics
	reverse.ServeHTTP(w, r)
	x.passedOn = x.err == nil && http.NewResponseController(w).Flush() == nil
}

// rest is a body of which the beginning was read already.
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
	answered time.Duration // when the upstream's answer was there
	polls    int           // requests to the upstream
	status   int           // HTTP status of the answer
	answer   answer
	header   http.Header // of the request to the upstream
	note     string
	err      error // why the client does not get the upstream's answer
	passedOn bool  // the client's connection took the whole answer

	hits    []*activeFault  // that the call met
	lost    *faulted        // why the answer is not to be passed on
	spoiled []history.Event // hits that count once the answer was passed on
	copies  []copied        // of messages, in the answer
}

// RoundTrip asks the upstream, for as long as a long poll calls for. Once a
// request is on its way the client's leaving does not cancel it: what it did
// upstream has to be known.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	x.header = out.Header
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

// shortPoll asks the upstream once, unless a fault refuses the call.
func (x *exchange) shortPoll(out *http.Request) (*http.Response, error) {
	if err := x.refuse(); err != nil {
		return nil, err
	}
	return x.ask(out, x.call.body, out.URL.RawQuery)
}

// ask sends one request upstream.
func (x *exchange) ask(out *http.Request, body []byte, query string) (*http.Response, error) {
	req := out.Clone(context.WithoutCancel(out.Context()))
	body, query = x.proxy.handles.resolve(&x.call, body, query)
	req.URL.RawQuery = query
	if x.call.inspected {
		req.Body, req.ContentLength = http.NoBody, int64(len(body))
		if len(body) > 0 {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			req.Body, _ = req.GetBody() // it has no error to give
		}
	}
	x.polls++
	return x.proxy.transport.RoundTrip(req)
}

// inspect reads the upstream's answer before it goes to the client.
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

// peek reads an answer's body and leaves it to be read again. One that is too
// large to inspect is not whole.
func peek(resp *http.Response) (body []byte, whole bool, err error) {
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxInspected+1))
	if err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	resp.Body = rest{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	return body, len(body) <= maxInspected, nil
}

// fail is called where there is no answer to pass on.
func (x *exchange) fail(w http.ResponseWriter, _ *http.Request, err error) {
	x.err = err
	if errors.Is(err, errClientGone) {
		panic(http.ErrAbortHandler) // an empty answer would be a wrong one
	}
	if f, ok := asFault(err); ok {
		x.answerFault(w, f)
		return
	}
	x.status, x.note = http.StatusBadGateway, err.Error()
	http.Error(w, "spotdrill proxy: "+err.Error(), http.StatusBadGateway)
}

// finish records the call and what came of its messages.
func (x *exchange) finish() {
	if x.answered == 0 {
		x.answered = x.proxy.records.now()
	}
	x.proxy.records.add(x.events()...)
	if x.lost == nil && !x.passedOn {
		if messages := x.proxy.handles.own(x.answer.messages); len(messages) > 0 {
			x.proxy.records.add(x.giveBack(messages))
		}
		for _, c := range x.copies { // as messages of SQS come back that nobody took
			x.proxy.faults.hold(c)
		}
	}
	for _, f := range x.hits {
		x.proxy.faults.done(f)
	}
}

// Admin serves GET /records, POST /faults (a Fault as JSON, which begins), DELETE
// /faults (all of them end) and GET /healthz.
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /records", p.records.serve)
	mux.HandleFunc("POST /faults", p.faults.serveBegin)
	mux.HandleFunc("DELETE /faults", p.faults.serveClear)
	mux.HandleFunc("GET /healthz", p.serveHealth)
	return mux
}

// serveHealth says whether the upstream answers.
func (p *Proxy) serveHealth(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.upstream.JoinPath("/_localstack/health").String(), http.NoBody)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		http.Error(w, "upstream: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		http.Error(w, "upstream: "+resp.Status, http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}
