package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
		t.Errorf("stop reported %q", got)
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
	validPlan := Plan{Streams: []QueryStream{freshStream(startServer(t, answer).addr, 10)}, For: time.Second}
	for _, c := range []struct {
		path string
		body any
		code int
		want string
	}{
		{"/probe", Plan{}, http.StatusBadRequest, "plan has no streams"},
		{"/probe", map[string]any{"stream": 1}, http.StatusBadRequest, `unknown field "stream"`},
		{"/probe", "hello", http.StatusBadRequest, "read plan"},
		{"/probe?patience=2m", validPlan, http.StatusBadRequest, "up to 1m0s"},
		{"/probe?patience=long", validPlan, http.StatusBadRequest, "want a duration"},
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

// The connection through an API server ends with that server. DNS goes on, and must be measured.
func TestAReaderThatComesAgainMissesNothing(t *testing.T) {
	t.Parallel()
	url := startService(t)
	plan := Plan{Streams: []QueryStream{freshStream(startServer(t, answer).addr, 500)}, Timeout: 100 * time.Millisecond, For: 2 * time.Second}
	if got := post(t, t.Context(), url+"/probe?patience=30s", plan).StatusCode; got != http.StatusAccepted {
		t.Fatalf("status %d", got)
	}
	var record bytes.Buffer
	for _, part := range []int64{2000, 3000, -1} { // the connection breaks twice
		response := resumeAt(t, url, fmt.Sprint(record.Len()))
		if response.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", response.StatusCode, text(t, response.Body))
		}
		if part < 0 {
			_, _ = io.Copy(&record, response.Body)
		} else if _, err := io.CopyN(&record, response.Body, part); err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if part < 0 {
			break
		}
		if got := post(t, t.Context(), url+"/probe", plan).StatusCode; got != http.StatusConflict {
			t.Errorf("a second probe got %d while the first one waits for its reader", got)
		}
	}
	length := record.Len()
	summary, h, err := collect(t, t.Context(), &record, history.NewClock())
	if err != nil || summary.Asked != 1000 || len(h.Queries) != summary.Asked+summary.Echo.Asked {
		t.Errorf("asked %d, %d on record: %v", summary.Asked, len(h.Queries), err)
	}
	for from, want := range map[string]int{fmt.Sprint(length): http.StatusRequestedRangeNotSatisfiable, fmt.Sprint(length + 1): http.StatusGone, "-1": http.StatusGone, "x": http.StatusBadRequest, "": http.StatusBadRequest} {
		response := resumeAt(t, url, from)
		if response.StatusCode != want {
			t.Errorf("from %q of %d: %d %q, want %d", from, length, response.StatusCode, text(t, response.Body), want)
		}
	}
}

func resumeAt(t *testing.T, url, from string) *http.Response {
	t.Helper()
	response, err := http.Get(url + "/record?from=" + from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestAProbeEndsWhenItsReaderDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	url := startService(t)
	if got := resumeAt(t, url, "0").StatusCode; got != http.StatusNotFound {
		t.Errorf("before any probe: status %d", got)
	}
	post(t, t.Context(), url+"/probe?patience=1s", Plan{Streams: []QueryStream{freshStream(startServer(t, answer).addr, 100)}, Timeout: 100 * time.Millisecond, For: time.Minute})
	began := time.Now()
	plan := Plan{Streams: []QueryStream{freshStream(startServer(t, answer).addr, 100)}, For: 100 * time.Millisecond}
	for post(t, t.Context(), url+"/probe", plan).StatusCode != http.StatusOK {
		if time.Since(began) > 20*time.Second {
			t.Fatal("the probe still runs")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("the probe ended %s after its reader, and had a patience of 1 s", took)
	}
}

func TestAKeptRecordDropsItsOldestPart(t *testing.T) {
	t.Parallel()
	k := newKeptRecord()
	piece := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for range 40 {
		_, _ = k.Write(piece)
	}
	if len(k.kept) > keepBytes*5/4 || k.first+int64(len(k.kept)) != int64(40*len(piece)) {
		t.Errorf("%d bytes are kept from %d on", len(k.kept), k.first)
	}
	if _, _, _, err := k.from(0); err == nil {
		t.Error("a reader goes on at what is no longer there")
	}
	part, whole, _, err := k.from(int64(40*len(piece)) - 5)
	if string(part) != "bcdef" || whole || err != nil {
		t.Errorf("got %q, whole %t, %v", part, whole, err)
	}
	k.end()
	k.forget(int64(40 * len(piece)))
	if part, whole, _, err := k.from(int64(40 * len(piece))); len(part) != 0 || !whole || err != nil {
		t.Errorf("at the end: %q, whole %t, %v", part, whole, err)
	}
}

// serve runs Serve until terminate is called, and gives what it returned.
func serve(t *testing.T) (url string, terminate context.CancelFunc, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, terminate := context.WithCancel(t.Context())
	t.Cleanup(terminate)
	returned := make(chan error, 1)
	go func() { returned <- Serve(ctx, listener, "") }()
	return "http://" + listener.Addr().String(), terminate, returned
}

// A prober that leaves with its node waits for the client that reads its record, and for no other.
func TestServeWaitsForTheClientThatReadsItsRecord(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"it reads on": true, "it is gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, terminate, ended := serve(t)
			plan := Plan{Streams: []QueryStream{freshStream(startServer(t, answer).addr, 100)}, Timeout: 100 * time.Millisecond, For: time.Minute}
			post(t, t.Context(), url+"/probe?patience=1m", plan)
			time.Sleep(200 * time.Millisecond) // otherwise it may end before its first query
			began := time.Now()
			terminate()
			if reads {
				time.Sleep(500 * time.Millisecond) // between two parts
				if summary, _, err := collect(t, t.Context(), resumeAt(t, url, "0").Body, history.NewClock()); err != nil || summary.Asked == 0 {
					t.Errorf("asked %d: %v", summary.Asked, err)
				}
			}
			select {
			case err := <-ended:
				if took := time.Since(began); err != nil || !reads && took < comesAgain/2 || took > comesAgain+5*time.Second {
					t.Errorf("it ended after %s: %v", took, err)
				}
			case <-time.After(20 * time.Second):
				t.Error("Serve did not return")
			}
		})
	}
}

func TestServeEndsARunningProbeWithItsSummary(t *testing.T) {
	t.Parallel()
	url, terminate, ended := serve(t)
	server := startServer(t, answer)
	response := post(t, t.Context(), url+"/probe",
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
