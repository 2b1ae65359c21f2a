package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// metadataEvery is the time between two looks, as the AWS Node Termination Handler has it.
	metadataEvery = 2 * time.Second
	// metadataWithin bounds a request for metadata, and one for a session.
	metadataWithin = 5 * time.Second
)

// The paths of what is announced.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
const (
	spotPath      = "spot/instance-action"
	rebalancePath = "events/recommendations/rebalance"
	scheduledPath = "events/maintenance/scheduled"
)

// metadata is the metadata of the instance that the handler runs on. Its client begins another
// session when one is refused.
type metadata struct {
	api      *imds.Client
	instance string
	metrics  *metrics
	log      *slog.Logger
}

// metadataOptions are those of a client of the service at a URL.
func metadataOptions(url string) imds.Options {
	return imds.Options{
		Endpoint:          url,
		ClientEnableState: imds.ClientEnabled,
		EnableFallback:    aws.FalseTernary, // sessions only
		Retryer:           aws.NopRetryer{}, // the next look is a retry
		// The client's own gives up after a second.
		HTTPClient: &http.Client{Timeout: metadataWithin},
	}
}

// openMetadata reads which instance it is, until there is an answer or ctx is done.
func openMetadata(ctx context.Context, options imds.Options, m *metrics, log *slog.Logger) (*metadata, error) {
	md := &metadata{api: imds.New(options), metrics: m, log: log}
	for pause := backoff(); ; {
		id, ok, err := md.read(ctx, "instance-id")
		if err == nil && ok {
			md.instance = id
			return md, nil
		}
		if !sleep(ctx, pause.Step()) {
			return nil, errors.Join(fmt.Errorf("read the instance id: %w", err), ctx.Err())
		}
	}
}

// read reads a path below meta-data; ok is false if there is nothing.
func (md *metadata) read(ctx context.Context, path string) (text string, ok bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, metadataWithin)
	defer cancel()
	out, err := md.api.GetMetadata(bounded, &imds.GetMetadataInput{Path: path})
	var refused *smithyhttp.ResponseError
	if errors.As(err, &refused) && refused.HTTPStatusCode() == http.StatusNotFound {
		return "", false, nil
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(out.Content)
		err = errors.Join(err, out.Content.Close())
	}
	if err != nil {
		if ctx.Err() == nil {
			md.metrics.metadataErrors.WithLabelValues(path).Inc()
			md.log.Warn("metadata not read", "path", path, "error", err)
		}
		return "", false, fmt.Errorf("read %s: %w", path, err)
	}
	return string(body), true, nil
}

// notices are what is announced now. What could not be read is left out.
func (md *metadata) notices(ctx context.Context) (found []notice, err error) {
	var errs []error
	for _, path := range []string{spotPath, rebalancePath, scheduledPath} {
		text, ok, err := md.read(ctx, path)
		if err == nil && ok {
			var of []notice
			of, err = md.parse(path, []byte(text))
			found = append(found, of...)
		}
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}

// parse reads what a path announces. What it announces twice is one notice, by its id.
func (md *metadata) parse(path string, text []byte) ([]notice, error) {
	of := func(id string, what action, why cause) notice {
		return notice{ID: path + "@" + id, Type: "instance metadata " + path, Action: what, Cause: why, Instances: []string{md.instance}}
	}
	var err error
	var found []notice
	switch path {
	case spotPath:
		var spot struct{ Action, Time string }
		err = json.Unmarshal(text, &spot)
		found = []notice{of(spot.Time, drain, spotInterrupted)}
	case rebalancePath:
		var rebalance struct{ NoticeTime string }
		err = json.Unmarshal(text, &rebalance)
		found = []notice{of(rebalance.NoticeTime, announce, rebalanceRecommended)}
	case scheduledPath:
		var events []struct {
			EventID string `json:"EventId"`
			State   string
		}
		err = json.Unmarshal(text, &events)
		for _, e := range events {
			if e.State == "active" {
				found = append(found, of(e.EventID, drain, scheduledChange))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read what %s announces: %w", path, err)
	}
	return found, nil
}

// look settles what is announced until ctx is done: each notice once, and again while that fails.
func (d *dispatcher) look(ctx context.Context, md *metadata, ready *atomic.Bool) {
	settled := map[string]bool{}
	for ctx.Err() == nil {
		found, err := md.notices(ctx)
		if err == nil && ready.CompareAndSwap(false, true) {
			d.log.Info("reading instance metadata", "instance", md.instance)
		}
		for _, n := range found {
			if settled[n.ID] {
				continue
			}
			result, err := d.settle(d.drainCtx, d.log, n)
			d.metrics.messages.WithLabelValues(string(n.Cause), result).Inc()
			d.log.Info("notice settled", "notice", n.ID, "result", result, "error", err)
			// The node may not be known yet.
			settled[n.ID] = result != resultFailed && result != resultForeign && result != resultEarly
		}
		sleep(ctx, metadataEvery)
	}
}
