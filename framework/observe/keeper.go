package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spotdrill/spotdrill/framework/guard"
)

const (
	// Patience is how long the keeper waits for its client: longer than resumeWithin, so that an
	// API server which is replaced ends no observation. With the removal of what it owns, an
	// observation whose client has died is still gone within a minute.
	Patience = 40 * time.Second
	// beatEvery is how often the client shows that it is alive.
	beatEvery = 5 * time.Second
)

// errDrained makes a keeper that is asked to terminate fail, so that its Job starts another one.
var errDrained = errors.New("asked to terminate while the client is alive")

// Keep serves POST /beat until no client was heard of for Patience, and returns nil then: the Job
// of its pod is complete, and Kubernetes removes what it owns.
func Keep(ctx context.Context, l net.Listener, token string, patience time.Duration) error {
	beats := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /beat", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case beats <- struct{}{}:
		default:
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: guard.With(token, mux), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	defer server.Close()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		case <-ctx.Done():
			return errDrained
		case <-beats:
			timer.Reset(patience)
		case <-timer.C:
			return nil
		}
	}
}
