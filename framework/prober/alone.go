package prober

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// apiWithin bounds an attempt to reach the API server.
	apiWithin = time.Second
	// longestAlone bounds the wait for a client that cannot come.
	longestAlone = 5 * time.Minute
)

// Alone notices that a client is gone. Clients come through the API server: time in which that
// cannot be reached does not count, up to five minutes, unless it never could be.
type Alone struct {
	patience time.Duration
	api      func(context.Context) bool

	mu     sync.Mutex
	held   bool          // a client is here
	left   time.Time     // when the last one left, or when it began to wait
	alone  time.Duration // without a client, as far as it counts
	silent time.Duration // without a client
}

// NewAlone begins to wait for a client. Wait returns when the patience is over.
func NewAlone(patience time.Duration) *Alone {
	return &Alone{patience: patience, api: apiAnswers, left: time.Now()}
}

// Hold reports that a client is here, until Release.
func (a *Alone) Hold() { a.set(true) }

// Release reports that the client that was here has left.
func (a *Alone) Release() { a.set(false) }

func (a *Alone) set(held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held, a.alone, a.silent, a.left = held, 0, 0, time.Now()
}

// For is how long no client has been here.
func (a *Alone) For() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held {
		return 0
	}
	return time.Since(a.left)
}

// Wait returns true once no client has come for as long as the patience lasts, and false when ctx
// ends.
func (a *Alone) Wait(ctx context.Context) bool {
	could := a.api(ctx)
	last := time.Now()
	ticker := time.NewTicker(min(time.Second, a.patience/4+1))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		can := !could || a.api(ctx)
		now := time.Now()
		if a.count(now.Sub(last), can) {
			return true
		}
		last = now
	}
}

// count adds a time that has passed, and reports whether the patience is over.
func (a *Alone) count(passed time.Duration, can bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held {
		return false
	}
	a.silent += passed
	if can {
		a.alone += passed
	}
	return a.alone >= a.patience || a.silent >= max(longestAlone, a.patience)
}

// apiAnswers reports whether something accepts connections at the API server's address, which
// Kubernetes gives to each container.
func apiAnswers(ctx context.Context) bool {
	dialer := net.Dialer{Timeout: apiWithin}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
