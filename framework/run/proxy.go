package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/proxy"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
)

// recordingProxy is the proxy between the handlers and both the queue and the API server.
type recordingProxy struct {
	*drill
	pods pods
}

// post sends a value to the recording proxy, as JSON.
func (p recordingProxy) post(ctx context.Context, path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	answer, err := p.pods.post(ctx, system.ProxyPod, path, body)
	if err != nil {
		return err
	}
	return answer.Close()
}

// clearProxy ends every fault at the recording proxy, and what EC2 finds there.
func clearProxy(ctx context.Context, p pods) error {
	for _, of := range []string{"faults", "findings"} {
		if err := p.request(http.MethodDelete, system.ProxyPod, of).Do(ctx).Error(); err != nil {
			return fmt.Errorf("clear the %s of the recording proxy: %w", of, err)
		}
	}
	return nil
}

// record takes the recording proxy's records into the history: calls to the queue and to the API
// server. Stop waits for those of calls that were made before it.
func (p recordingProxy) record(ctx context.Context) (stop recording.Stop, err error) {
	// An interrupt does not end the record, stop does.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := p.pods.get(ctx, system.ProxyPod, "records")
	if err != nil {
		cancel()
		return nil, err
	}
	enough := make(chan struct{})
	ended := p.collect("the recording proxy", func() error { return proxy.Collect(ctx, enough, body, p.Clock(), p.Recorder) })
	return func(context.Context) error {
		defer cancel()
		until := p.now()
		close(enough)
		err := <-ended
		if err == nil {
			p.Record(history.NewAPIRecorded(history.At(until)))
		}
		return err
	}, nil
}
