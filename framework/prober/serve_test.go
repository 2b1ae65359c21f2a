package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func startService(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	server := httptest.NewServer(NewHandler(ctx))
	t.Cleanup(server.Close)
	t.Cleanup(cancel) // first, or Close would wait for a probe
	return server.URL
}

func post(t *testing.T, ctx context.Context, url string, body any) *http.Response {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServiceStreamsAProbeIntoAHistory(t *testing.T) {
	t.Parallel()
	clock := history.NewClock()
	server := startServer(t, answer)
	silent := startServer(t, silence)
	control := freshStream(silent.addr, 50)
	control.Target = history.Control
	plan := Plan{
		Streams: []QueryStream{freshStream(server.addr, 500), fixedStream(server.addr, 250, 4), control},
		Timeout: time.Second, For: time.Second,
	}
	began := clock.Now()
	response := post(t, t.Context(), startService(t)+"/probe", plan)
	summary, h, err := collect(t, t.Context(), response.Body, clock)
	if err != nil {
		t.Fatal(err)
	}
	if summary.Asked != 800 || len(h.Queries) != 800+summary.Echo.Asked {
		t.Errorf("asked %d, recorded %d, want 800 and the echo's %d", summary.Asked, len(h.Queries), summary.Echo.Asked)
	}
	wantOnly(t, summary.Streams[0].Figures, history.Answered)
	wantOnly(t, summary.Streams[2].Figures, history.Timeout)
	for _, q := range h.Queries { // exact: both read one kernel's clock
		if q.Intended < began || q.Done > clock.Now() {
			t.Fatalf("%+v is not between %v and now on the recorder's clock", q, began)
		}
	}
}

func TestServiceStreamsAtOnce(t *testing.T) {
	t.Parallel()
	url := startService(t)
	server := startServer(t, answer)
	response := post(t, t.Context(), url+"/probe", Plan{Streams: []QueryStream{freshStream(server.addr, 10)}, For: 20 * time.Second})
	began := time.Now()
	record, err := history.NewQueryReader(response.Body)
	for i := 0; i < 4 && err == nil; i++ {
		_, err = record.Next()
	}
	if took := time.Since(began); err != nil || took > 5*time.Second {
		t.Errorf("the first queries came after %v: %v", took, err)
	}
	stopped := post(t, t.Context(), url+"/stop", nil)
	if got := text(t, stopped.Body); got != "stopping\n" {
		t.Errorf("stop said %q", got)
	}
	for err == nil {
		_, err = record.Next()
	}
	var last closing
	if err := record.Trailer(&last); err != nil || last.Summary == nil || last.Summary.Asked == 0 {
		t.Errorf("the record of a stopped probe ends in %+v: %v", last, err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the probe went on for %v", took)
	}
}

func TestServiceRunsOneProbeAtATimeAndEndsItWithItsClient(t *testing.T) {
	t.Parallel()
	url := startService(t)
	server := startServer(t, answer)
	plan := Plan{Streams: []QueryStream{freshStream(server.addr, 100)}, Timeout: 100 * time.Millisecond, For: time.Minute}
	client, gone := context.WithCancel(t.Context())
	defer gone()
	if got := post(t, client, url+"/probe", plan).StatusCode; got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	refused := post(t, t.Context(), url+"/probe", plan)
	if got := text(t, refused.Body); refused.StatusCode != http.StatusConflict || !strings.Contains(got, "POST /stop") {
		t.Errorf("a second probe got %d: %s", refused.StatusCode, got)
	}
	gone()
	plan.For = 100 * time.Millisecond
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		response := post(t, t.Context(), url+"/probe", plan)
		if response.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the probe of a client that is gone still runs")
		}
	}
}

func TestServiceRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	url := startService(t)
	for _, c := range []struct {
		path string
		body any
		code int
		want string
	}{
		{"/probe", Plan{}, http.StatusBadRequest, "plan has no streams"},
		{"/probe", map[string]any{"stream": 1}, http.StatusBadRequest, `unknown field "stream"`},
		{"/probe", "hello", http.StatusBadRequest, "read plan"},
		{"/stop", nil, http.StatusOK, "no probe is running"},
		{"/else", nil, http.StatusNotFound, ""},
	} {
		response := post(t, t.Context(), url+c.path, c.body)
		if got := text(t, response.Body); response.StatusCode != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %v: got %d %q, want %d %q", c.path, c.body, response.StatusCode, got, c.code, c.want)
		}
	}
	response, err := http.Get(url + "/healthz")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("healthz: %v %v", response, err)
	}
}

func TestServeEndsARunningProbeWithItsSummary(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, terminate := context.WithCancel(t.Context())
	defer terminate()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, "") }()
	server := startServer(t, answer)
	response := post(t, t.Context(), "http://"+listener.Addr().String()+"/probe",
		Plan{Streams: []QueryStream{freshStream(server.addr, 100)}, For: time.Minute})
	time.AfterFunc(200*time.Millisecond, terminate)
	summary, _, err := collect(t, t.Context(), response.Body, history.NewClock())
	if err != nil || summary.Asked == 0 {
		t.Errorf("asked %d: %v", summary.Asked, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Second):
		t.Error("Serve did not return")
	}
}
