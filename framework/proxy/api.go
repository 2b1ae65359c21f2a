package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// API forwards a handler's calls to the Kubernetes API server, records each of them, and
// injects faults. It changes no request: the handler's own token goes through, so that the
// API server sees the handler as its user. Serve it with TLS, as HTTP/1.1 and HTTP/2.
type API struct {
	upstream  *url.URL
	transport *http.Transport
	records   *records
	faults    *fault.Faults
	folds     *folds
	watches   *watches
	answered  atomic.Bool // the API server has, at least once
}

// API returns the part of the proxy for the API server at upstream, whose
// certificate one of the roots signed. Both parts share their records and faults.
func (p *Proxy) API(upstream *url.URL, roots *x509.CertPool) *API {
	a := &API{
		upstream: upstream,
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 32,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true, // the client decides
		},
		records: p.records, faults: p.faults, folds: newFolds(p.records),
	}
	a.watches = newWatches(a)
	p.records.present = a.watches.present
	p.api = a
	return a
}

// ready reports whether the API server has ever answered. It does not ask again: a server
// that is slow for a moment must not take the proxy out of its Service.
func (a *API) ready(ctx context.Context) error {
	if a.answered.Load() {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.upstream.JoinPath("/livez").String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := a.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a.answered.Store(true)
	return nil
}

// connection is the key of a request's connection in its context.
type connection struct{}

// ConnContext must be that of the http.Server: a reset needs the request's connection.
func (a *API) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c)
}

// ServeHTTP forwards one call and records it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &apiExchange{api: a, client: r.Context(), call: parseAPICall(r), arrived: a.records.now()}
	if x.call.writesNode() {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxInspected+1))
		if err != nil { // the client left in the middle of its request
			http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
			return
		}
		x.call.marks = []string{history.MarksUnknown}
		if len(body) <= maxInspected {
			x.call.marks = marksIn(r.Header.Get("Content-Type"), body)
		}
		r.Body = rest{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	}
	defer x.finish()
	a.faults.Reach(history.OnAPI, x.call.verb, x.call.kubectlName(), x.call.node())
	if f := x.hitBy(history.Conflict, history.Denied, history.Throttle, history.ServerError, history.Reset, history.BlackHole); f != nil {
		x.refuse(w, f)
		return
	}
	reverse := httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { pr.SetURL(a.upstream) },
		Transport:      x,
		FlushInterval:  -1, // a watch's events must not wait for more
		ModifyResponse: x.inspect,
		ErrorHandler:   x.fail,
	}
	reverse.ServeHTTP(w, r)
}

// apiExchange is one call to the API server on its way through the proxy.
type apiExchange struct {
	api      *API
	client   context.Context //nolint:containedctx // ends with the client's stream, not with a call
	call     apiCall
	arrived  time.Duration
	recorded bool
	hits     []*fault.Active
	fault    string // name of the fault that hit the call
}

func (x *apiExchange) hitBy(types ...history.FaultType) *fault.Active {
	f := x.api.take(x.call, types...)
	if f == nil {
		return nil
	}
	x.hits, x.fault = append(x.hits, f), f.Name
	x.api.folds.hit(hitOf(f, x.call, x.api.records.now()))
	return f
}

func hitOf(f *fault.Active, c apiCall, at time.Duration) history.Event {
	return f.Hit(c.detail(), history.At(at))
}

// RoundTrip calls the API server. A call whose answer is to be lost is made even if the
// client leaves: its effect is what the fault is about.
func (x *apiExchange) RoundTrip(out *http.Request) (*http.Response, error) {
	if f := x.hitBy(history.Held); f != nil {
		if err := pause(x.client, f.By.D()); err != nil {
			return nil, err
		}
	}
	lost := x.hitBy(history.LostAnswer)
	if lost != nil {
		out = out.Clone(context.WithoutCancel(out.Context()))
	}
	resp, err := x.api.transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		x.record(resp.StatusCode, 0, faulted{lost}.Error())
		resp.Body.Close()
		return nil, faulted{lost}
	}
	if f := x.hitBy(history.Delay); f != nil {
		_ = pause(x.client, f.By.D()) // the next step finds out whether the client is gone
	}
	return resp, nil
}

// inspect records the answer before the client gets it.
func (x *apiExchange) inspect(resp *http.Response) error {
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // the API server gives no dates
	x.record(resp.StatusCode, time.Duration(seconds)*time.Second, "")
	if x.call.verb == "watch" && resp.StatusCode == http.StatusOK {
		resp.Body = x.api.watches.open(x.client, x.call, resp.Body)
	}
	return nil
}

// fail answers the client if there is no answer to forward.
func (x *apiExchange) fail(w http.ResponseWriter, _ *http.Request, err error) {
	if x.client.Err() != nil {
		x.record(0, 0, errClientGone.Error())
		panic(http.ErrAbortHandler)
	}
	if _, lost := errors.AsType[faulted](err); lost {
		abort(x.client)
	}
	// The handler is not to blame for this: see Collect.
	x.fault = ""
	e := x.event(http.StatusBadGateway, 0, err.Error())
	e.Owner = history.ProxyOwner
	x.recorded = true
	x.api.folds.add(e)
	http.Error(w, "spotdrill proxy: "+err.Error(), http.StatusBadGateway)
}

// refuse does to the client what the fault demands; the call takes no effect.
func (x *apiExchange) refuse(w http.ResponseWriter, f *fault.Active) {
	switch f.Type {
	case history.Reset:
		x.record(0, 0, faulted{f}.Error())
		abort(x.client)
	case history.BlackHole:
		select {
		case <-x.client.Done():
		case <-f.Over():
		}
		x.record(0, 0, faulted{f}.Error())
		if x.client.Err() != nil { // only this call is over, not its connection
			panic(http.ErrAbortHandler)
		}
		abort(x.client)
	}
	status := apiRefusal(f.Fault, x.call)
	x.record(int(status.Code), f.RetryAfter.D(), faulted{f}.Error())
	writeStatus(w, status)
}

func (x *apiExchange) record(status int, retryAfter time.Duration, note string) {
	if !x.recorded {
		x.recorded = true
		x.api.folds.add(x.event(status, retryAfter, note))
	}
}

func (x *apiExchange) event(status int, retryAfter time.Duration, note string) history.Event {
	e := history.NewAPICall(x.call.verb, x.call.resource, x.call.marks, x.call.detail())
	e.At, e.Status, e.Fault, e.Note = x.api.records.now(), status, x.fault, note
	e.Numbers = history.Numbers{history.Took: (e.At - x.arrived).Seconds()}
	if retryAfter > 0 {
		e.Numbers[history.RetryAfter] = retryAfter.Seconds()
	}
	return e
}

// finish records the call if nothing else has: the proxy gave up on it.
func (x *apiExchange) finish() {
	x.record(0, 0, "no answer was forwarded")
	for _, f := range x.hits {
		x.api.faults.Done(f)
	}
}

// abort resets the TCP connection of a request, and with it every other request of an
// HTTP/2 connection, as a server that crashes does. It does not return.
func abort(ctx context.Context) {
	conn, _ := ctx.Value(connection{}).(net.Conn)
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, Close fails, too
		_ = tcp.Close()
	}
	panic(http.ErrAbortHandler)
}
