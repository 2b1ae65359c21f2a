package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/prober"
)

const (
	// Patience is how long the keeper waits for its client while the API server can be reached.
	// With the removal of what it owns, an observation whose client has died is gone within a minute.
	Patience = 30 * time.Second
	// beatEvery is how often the client shows that it is alive.
	beatEvery = 5 * time.Second
)

// errDrained makes a keeper that is asked to terminate fail, so that its Job starts another one.
var errDrained = errors.New("asked to terminate while the client is alive")

// Keep serves POST /beat until no client was heard of for Patience, and returns nil then: the Job
// of its pod is complete, and Kubernetes removes what it owns.
func Keep(ctx context.Context, l net.Listener, token string, patience time.Duration) error {
	alone := prober.NewAlone(patience)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /beat", func(w http.ResponseWriter, _ *http.Request) {
		alone.Release() // it came, and has left
		_, _ = fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: guard.With(token, mux), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	defer server.Close()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	gone := make(chan bool, 1)
	go func() { gone <- alone.Wait(waiting) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case isGone := <-gone:
		if !isGone {
			return errDrained
		}
		return nil
	}
}
