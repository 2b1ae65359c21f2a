package main

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client's timeout ends a request in two ways, and which one comes first is chance: both have the advice.
func TestARequestThatTimesOutShowsWhatToDo(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for range 200 {
		client := &http.Client{Timeout: 5 * time.Millisecond, Transport: answered{http.DefaultTransport}}
		answer, err := client.Get("http://" + silent.Addr().String())
		if err == nil {
			answer.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "the API server does not answer") {
			t.Fatalf("the error is %v", err)
		}
	}
}
