package nodes

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
)

// drainTimeout bounds a drain.
const drainTimeout = 2 * time.Minute

// evictRetry is how long kubectl drain waits after an eviction that was refused.
const evictRetry = 5 * time.Second

// DrainOptions are how a node is drained.
type DrainOptions struct {
	// Timeout is how long pods are evicted, at most 2 min; 0 for 2 min.
	Timeout time.Duration
	// Delete deletes pods without asking the Eviction API.
	Delete bool
	// Print gets the lines that kubectl prints; it may be nil.
	Print func(line string)
}

// Drain drains a node with kubectl's own code, as kubectl drain --ignore-daemonsets
// --delete-emptydir-data --force does. It waits until the pods are gone.
func Drain(ctx context.Context, client kubernetes.Interface, node string, o DrainOptions) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if o.Timeout == 0 {
		o.Timeout = drainTimeout
	}
	printed := lines{each: o.Print}
	const ofThePod = -1 // each pod's own grace period
	drainer := &drain.Helper{
		Ctx: ctx, Client: client, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		GracePeriodSeconds: ofThePod, Timeout: o.Timeout, DisableEviction: o.Delete, EvictErrorRetryDelay: evictRetry, Out: &printed, ErrOut: &printed,
	}
	n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("drain node %s: %w", node, err)
	}
	if err := drain.RunCordonOrUncordon(drainer, n, true); err != nil {
		return fmt.Errorf("drain node %s: cordon it: %w", node, err)
	}
	if err := drain.RunNodeDrain(drainer, node); err != nil {
		return fmt.Errorf("drain node %s: %w", node, err)
	}
	return nil
}

// lines passes on what is written to it, line by line. It is safe for concurrent use.
type lines struct {
	each func(line string)

	mu   sync.Mutex
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		l.rest = rest
		if line := strings.TrimSpace(string(line)); line != "" && l.each != nil {
			l.each(line)
		}
	}
}
