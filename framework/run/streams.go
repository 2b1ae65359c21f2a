package run

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/proxy"
)

// recordsPort is where our pods serve their records.
const recordsPort = "8080"

// proxied is a request to one of our pods through the API server's pod proxy: the
// one way in that every cluster has.
func (s *System) proxied(verb, pod, path string) *rest.Request {
	return s.Cluster.Clientset.CoreV1().RESTClient().Verb(verb).
		Namespace(Namespace).Resource("pods").Name(pod + ":" + recordsPort).SubResource("proxy").Suffix(path)
}

func (s *System) get(ctx context.Context, pod, path string) (io.ReadCloser, error) {
	body, err := s.proxied(http.MethodGet, pod, path).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s of pod %s: %w", path, pod, err)
	}
	return body, nil
}

func (s *System) post(ctx context.Context, pod, path string, body []byte) (io.ReadCloser, error) {
	answer, err := s.proxied(http.MethodPost, pod, path).SetHeader("Content-Type", "application/json").Body(body).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("post %s to pod %s: %w", path, pod, err)
	}
	return answer, nil
}

// recordQueue takes the proxy's record into the history until stop is called, which
// waits for what there is of before.
func (r *drilling) recordQueue(ctx context.Context) (stop func() error, err error) {
	// The record outlives an interrupt: stop ends it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := r.get(ctx, "queue-proxy", "records")
	if err != nil {
		cancel()
		return nil, err
	}
	enough := make(chan struct{})
	ended := r.collect("the queue", func() error { return proxy.Collect(ctx, enough, body, r.rec.Clock(), r.rec) })
	return func() error {
		defer cancel()
		close(enough)
		return <-ended
	}, nil
}

// collect takes a stream into the history in the background. What breaks it off ends
// the steps, and is what ended gives.
func (r *drilling) collect(of string, stream func() error) (ended <-chan error) {
	done := make(chan error, 1)
	go func() {
		err := stream()
		if err != nil {
			err = fmt.Errorf("the record of %s broke off: %w", of, err)
			r.broken <- err
		}
		done <- err
	}()
	return done
}
