package main

import (
	"context"
	"errors"
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
