package run

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/proxy"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
)

// podRequest is a request to one of our pods, where it serves its records.
func podRequest(c *cluster.Cluster, verb, pod, path string) *rest.Request {
	return c.Objects().PodRequest(verb, system.Namespace, pod, system.RecordsPort, path)
}

func (r *runner) get(ctx context.Context, pod, path string) (io.ReadCloser, error) {
	body, err := podRequest(r.sys.Cluster, http.MethodGet, pod, path).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s of pod %s: %w", path, pod, err)
	}
	return body, nil
}

func (r *runner) post(ctx context.Context, pod, path string, body []byte) (io.ReadCloser, error) {
	answer, err := podRequest(r.sys.Cluster, http.MethodPost, pod, path).SetHeader("Content-Type", "application/json").Body(body).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("post %s to pod %s: %w", path, pod, err)
	}
	return answer, nil
}

// recordQueue takes the recording proxy's records into the history: calls to the queue and
// to the API server. Stop waits for
// those of calls that were made before it.
func (r *runner) recordQueue(ctx context.Context) (stop recording.Stop, err error) {
	// An interrupt does not end the record, stop does.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := r.get(ctx, system.ProxyPod, "records")
	if err != nil {
		cancel()
		return nil, err
	}
	enough := make(chan struct{})
	ended := r.collect("the recording proxy", func() error { return proxy.Collect(ctx, enough, body, r.rec.Clock(), r.rec) })
	return func(context.Context) error {
		defer cancel()
		until := r.rec.Clock().Now()
		close(enough)
		err := <-ended
		if err == nil {
			r.rec.Record(history.NewAPIRecorded(history.At(until)))
		}
		return err
	}, nil
}

// collect takes a stream into the history in the background. An error that breaks the
// stream off also ends the steps; ended gets it.
func (r *runner) collect(of string, stream func() error) (ended <-chan error) {
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
