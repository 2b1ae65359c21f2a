package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestHowAWorkloadEnds(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		took time.Duration
		code int
	}{
		"at once":           {nil, 0, 0},
		"slowly":            {[]string{"--stop-after=20s"}, 20 * time.Second, 0},
		"as failed":         {[]string{"--exit-code=143"}, 0, 143},
		"slowly, as failed": {[]string{"--stop-after=8s", "--exit-code=1"}, 8 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, terminate := context.WithCancel(t.Context())
				cmd := newWorkloadCommand()
				cmd.SetArgs(append([]string{}, c.args...))
				ended := make(chan error, 1)
				go func() { ended <- cmd.ExecuteContext(ctx) }()
				time.Sleep(time.Minute)
				if len(ended) > 0 {
					t.Fatal("ended before SIGTERM")
				}
				sent := time.Now()
				terminate()
				err := <-ended
				if took := time.Since(sent); took != c.took {
					t.Errorf("ended after %s, want %s", took, c.took)
				}
				var coded exitError
				if errors.As(err, &coded) != (c.code != 0) || coded.code != c.code {
					t.Errorf("ended with %v, want exit code %d", err, c.code)
				}
			})
		})
	}
}

// A workload that serves does so from its time on until SIGTERM.
func TestAWorkloadThatServes(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	answers := func() bool {
		answer, err := http.Get("http://" + address + "/")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}
	ctx, terminate := context.WithCancel(t.Context())
	cmd := newWorkloadCommand()
	cmd.SetArgs([]string{"--http=" + address, "--starts-in=300ms"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	if answers() {
		t.Error("it answered before its time")
	}
	for start := time.Now(); !answers(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("no answer within 10 s")
		}
	}
	terminate()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if answers() {
		t.Error("it answered after SIGTERM")
	}
}

func TestAWorkloadThatCannotServe(t *testing.T) {
	cmd := newWorkloadCommand()
	cmd.SetArgs([]string{"--http=192.0.2.1:1"})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("no error for an address of another machine")
	}
}
