package main

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// The server fails in the way and at the time that is planned, and shows when it did.
func TestWebServer(t *testing.T) {
	w, err := startWebServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const each = 400 * time.Millisecond
	begun := monotonic()
	w.fail(begun, []outage{{fails, each, 2 * each}, {refuses, 3 * each, 4 * each}, {silent, 5 * each, 6 * each}})
	client := http.Client{Timeout: 50 * time.Millisecond}
	for i, want := range []kind{"", fails, "", refuses, "", silent, ""} {
		time.Sleep(begun + time.Duration(i)*each + each/2 - monotonic())
		answer, err := client.Get("http://" + w.address())
		var got kind
		var timeout interface{ Timeout() bool }
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			got = silent
		case err != nil:
			got = refuses
		case answer.StatusCode == http.StatusServiceUnavailable:
			got = fails
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		if got != want {
			t.Errorf("request %d: %q, want %q (%v)", i, got, want, err)
		}
	}
	all := w.played()
	if len(all) != 3 {
		t.Fatalf("played %+v", all)
	}
	for i, o := range all {
		from := begun + time.Duration(2*i+1)*each
		if o.from < from || o.from > from+each/4 || o.to < from+each || o.to > from+each+each/4 || o.before < 0 || o.after < 0 {
			t.Errorf("%s from %v to %v after the begin, doubts %v and %v", o.kind, o.from-begun, o.to-begun, o.before, o.after)
		}
	}
}
