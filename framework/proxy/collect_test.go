package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func newRecorder(t *testing.T) *history.Recorder {
	t.Helper()
	rec, _ := recorderIn(t)
	return rec
}

// recorderIn is newRecorder with the folder of its history.
func recorderIn(t *testing.T) (rec *history.Recorder, dir string) {
	t.Helper()
	dir = t.TempDir()
	rec, err := history.Create(dir, history.NewClock(), history.Meta{Scenario: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close(false) })
	return rec, dir
}

// recorded collects the proxy's records over HTTP until the test ends.
func recorded(t *testing.T, proxy *Proxy) *history.Recorder {
	t.Helper()
	rec := newRecorder(t)
	collectInto(t, proxy, rec)
	return rec
}

// collectInto collects the proxy's records over HTTP into rec until the test ends.
func collectInto(t *testing.T, proxy *Proxy, rec *history.Recorder) {
	t.Helper()
	proxy.records.every = 20 * time.Millisecond // collecting ends after a heartbeat
	server := httptest.NewServer(proxy.Admin())
	stop := make(chan struct{})
	resp, err := http.Get(server.URL + "/records")
	if err != nil {
		t.Fatal(err)
	}
	collected := make(chan error, 1)
	go func() { collected <- Collect(context.Background(), stop, resp.Body, rec.Clock(), rec) }()
	t.Cleanup(func() {
		close(stop)
		if err := <-collected; err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		server.Close()
	})
}

func awaitEvent(t *testing.T, rec *history.Recorder, match func(history.Event) bool) history.Event {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, e := range rec.Events() {
			if match(e) {
				return e
			}
		}
	}
	t.Fatalf("no such event among %+v", rec.Events())
	return history.Event{}
}

func TestCollectRebasesToTheRecordersClock(t *testing.T) {
	rec := newRecorder(t)
	anchor := history.NewAnchor()
	anchor.BootID, anchor.Wall = "another machine", rec.Clock().Start().Add(3*time.Second)
	stream := lines(t, line{Anchor: &anchor}, line{Event: new(history.NewSQSCall("", "GetQueueUrl", "", func(e *history.Event) { e.Seq = 7 }, history.At(time.Second)))})
	if err := Collect(t.Context(), nil, strings.NewReader(stream), rec.Clock(), rec); err == nil || !strings.Contains(err.Error(), "the stream ended") {
		t.Errorf("a stream that ends: %v", err)
	}
	events := rec.Events()
	if len(events) != 1 || events[0].At != 4*time.Second || events[0].Seq != 1 {
		t.Fatalf("got %+v", events)
	}
	if events[0].Numbers[history.ClockBound] <= 0 {
		t.Error("times between two machines were not marked as uncertain")
	}
}

func TestCollectRefusesADamagedStream(t *testing.T) {
	anchor, beat := history.NewAnchor(), time.Second
	call := func(seq int) line {
		return line{Event: new(history.NewSQSCall("", "", "", func(e *history.Event) { e.Seq = seq }))}
	}
	for name, tc := range map[string]struct{ stream, want string }{
		"no anchor":       {lines(t, call(1)), "not the anchor"},
		"heartbeat first": {lines(t, line{Heartbeat: &beat}), "not the anchor"},
		"two anchors":     {lines(t, line{Anchor: &anchor}, line{Anchor: &anchor}), "second anchor"},
		"gap":             {lines(t, line{Anchor: &anchor}, call(4), call(5), call(7)), "record 7 follows 5"},
		"other kind":      {lines(t, line{Anchor: &anchor}, line{Event: new(history.NewRunEnded(func(e *history.Event) { e.Seq = 1 }))}), "run.ended"},
		"empty line":      {lines(t, line{Anchor: &anchor}, line{}), "neither"},
		"not JSON":        {lines(t, line{Anchor: &anchor}) + "upstream connect error\n", "line 2"},
		"cut short":       {lines(t, line{Anchor: &anchor}, call(1)) + `{"seq":2,"ki`, "line 3"},
		"nothing":         {"", "the stream ended"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := newRecorder(t)
			err := Collect(t.Context(), nil, strings.NewReader(tc.stream), rec.Clock(), rec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q in %v", tc.want, err)
			}
		})
	}
}

func TestCollectWantsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder(t)
		body, stream := io.Pipe()
		collected := make(chan error, 1)
		go func() { collected <- Collect(t.Context(), nil, body, rec.Clock(), rec) }()
		anchor := history.NewAnchor()
		fmt.Fprint(stream, lines(t, line{Anchor: &anchor}))
		for beat := time.Duration(0); beat < 10*time.Second; beat += heartbeatInterval {
			fmt.Fprint(stream, lines(t, line{Heartbeat: &beat}))
			time.Sleep(heartbeatInterval)
		}
		silent := time.Now()
		err := <-collected
		if err == nil || !strings.Contains(err.Error(), "heartbeat") {
			t.Errorf("got %v", err)
		}
		if after := time.Since(silent); after != heartbeatTimeout-heartbeatInterval {
			t.Errorf("noticed %s after the last heartbeat", after+heartbeatInterval)
		}
		stream.Close()
	})
}

// What a slow stream still holds when the drill ends belongs to its history.
func TestCollectStopsOnceItHasReadWhatWasBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder(t)
		body, stream := io.Pipe()
		defer stream.Close()
		stop, collected := make(chan struct{}), make(chan error, 1)
		go func() { collected <- Collect(t.Context(), stop, body, rec.Clock(), rec) }()
		anchor := history.NewAnchor()
		fmt.Fprint(stream, lines(t, line{Anchor: &anchor}))
		time.Sleep(3 * time.Second)
		close(stop)
		before, after := 2*time.Second, 4*time.Second
		fmt.Fprint(stream, lines(t, line{Heartbeat: &before}))
		time.Sleep(2 * time.Second)
		fmt.Fprint(stream, lines(t, line{Event: new(history.NewSQSCall("", "", "", func(e *history.Event) { e.Seq = 1 }, history.At(2500*time.Millisecond)))}, line{Heartbeat: &after}))
		if err := <-collected; err != nil {
			t.Error(err)
		}
		if events := rec.Events(); len(events) != 1 {
			t.Errorf("recorded %+v", events)
		}
	})
}

func TestCollectEndsWellWhenCancelled(t *testing.T) {
	rec := newRecorder(t)
	body, stream := io.Pipe()
	defer stream.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Collect(ctx, nil, body, rec.Clock(), rec); err != nil {
		t.Error(err)
	}
}

func TestRecordsBeatAndCutAReaderThatLags(t *testing.T) {
	proxy := New(nil)
	server := httptest.NewServer(proxy.Admin())
	defer server.Close()
	resp, err := http.Get(server.URL + "/records")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	decoder := json.NewDecoder(resp.Body)
	var first, second line
	if err := decoder.Decode(&first); err != nil || first.Anchor == nil {
		t.Fatalf("first line %+v, %v", first, err)
	}
	if err := decoder.Decode(&second); err != nil || second.Heartbeat == nil {
		t.Fatalf("second line %+v, %v", second, err)
	}
	// More at once than the reader's buffers hold.
	burst := make([]history.Event, 20*maxBehind)
	for i := range burst {
		burst[i] = history.NewSQSCall("", "", "")
	}
	proxy.records.add(burst...)
	for {
		var l line
		if err := decoder.Decode(&l); err != nil {
			if err == io.EOF {
				t.Error("the stream ended cleanly")
			}
			return
		}
	}
}

func FuzzCollect(f *testing.F) {
	f.Add([]byte(`{"anchor":{"wall":"2026-01-01T00:00:00Z","monotonic":1,"boot_id":"b"}}` + "\n" + `{"heartbeat":1}` + "\n" + `{"seq":1,"at":5,"kind":"sqs.call"}`))
	f.Add([]byte(`{"anchor":null,"kind":"sqs.delete","numbers":{"a":1}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, stream []byte) {
		rec, err := history.Create(dir, history.NewClock(), history.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close(false)
		if err := Collect(t.Context(), nil, strings.NewReader(string(stream)), rec.Clock(), rec); err == nil {
			t.Error("a stream that ended was accepted")
		}
	})
}

func lines(t *testing.T, all ...line) string {
	t.Helper()
	var text strings.Builder
	for _, l := range all {
		if err := json.NewEncoder(&text).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
