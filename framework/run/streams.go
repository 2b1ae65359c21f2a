package run

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/queue"
)

// recordsPort is where our pods serve their records.
const recordsPort = "8080"

// get and post reach one of our pods through the API server's pod proxy: the
// one way in that every cluster has.
func (s *System) get(ctx context.Context, pod, path string) (io.ReadCloser, error) {
	body, err := s.Cluster.Clientset.CoreV1().RESTClient().Get().
		Namespace(Namespace).Resource("pods").Name(pod + ":" + recordsPort).SubResource("proxy").Suffix(path).
		Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s of pod %s: %w", path, pod, err)
	}
	return body, nil
}

func (s *System) post(ctx context.Context, pod, path string, body []byte) (io.ReadCloser, error) {
	answer, err := s.Cluster.Clientset.CoreV1().RESTClient().Post().
		Namespace(Namespace).Resource("pods").Name(pod+":"+recordsPort).SubResource("proxy").Suffix(path).
		SetHeader("Content-Type", "application/json").Body(body).
		Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("post %s to pod %s: %w", path, pod, err)
	}
	return answer, nil
}

// recordQueue takes the proxy's record into the history until stop is called.
func (r *drilling) recordQueue(ctx context.Context) (stop func(), err error) {
	// The record outlives an interrupt: stop ends it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := r.get(ctx, "queue-proxy", "records")
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := queue.CollectRecords(ctx, body, r.rec.Clock(), r.rec); err != nil && ctx.Err() == nil {
			r.broken <- fmt.Errorf("the record of the queue broke off: %w", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// probeLimit bounds a probe that nobody stops; the longest scenario takes five
// minutes.
const probeLimit = 15 * time.Minute

// startProber makes the pod and its plan: the service by its cluster IP in both
// port modes, and a CoreDNS pod that stays as the control.
func (r *drilling) startProber(ctx context.Context) (*prober.Plan, error) {
	service, err := r.Cluster.DNSServiceIP(ctx)
	if err != nil {
		return nil, err
	}
	control, err := r.control(ctx)
	if err != nil {
		return nil, err
	}
	p := r.Scenario.Probe
	var plan prober.Plan
	for _, s := range []struct {
		target, ip  string
		mode        history.Mode
		rate, ports int
	}{
		{history.Service, service, history.Fresh, p.Fresh, 0},
		{history.Service, service, history.Fixed, p.Fixed, p.FixedPorts},
		{history.Control, control, history.Fresh, p.Control, 0},
	} {
		ip, err := netip.ParseAddr(s.ip)
		if err != nil {
			return nil, fmt.Errorf("address of the %s: %w", s.target, err)
		}
		plan.Streams = append(plan.Streams, prober.Stream{
			Target: s.target, Server: netip.AddrPortFrom(ip, 53), Mode: s.mode, Rate: s.rate, Ports: s.ports,
			Questions: []prober.Question{{Name: p.Name, Type: dns.TypeA}},
		})
	}
	plan.For, plan.Timeout = probeLimit, prober.DefaultTimeout
	if err := plan.Validate(); err != nil {
		return nil, fmt.Errorf("plan of the prober: %w", err)
	}
	if err := r.create(ctx, "prober.yaml", map[string]string{"NAMESPACE": Namespace, "IMAGE": r.image}); err != nil {
		return nil, err
	}
	return &plan, r.podReady(ctx, "prober")
}

// recordProbe starts probing and takes the record into the history. Stop ends
// the load and waits for the answers that are still out.
func (r *drilling) recordProbe(ctx context.Context) (stop func(context.Context) error, err error) {
	plan, err := json.Marshal(r.probe)
	if err != nil {
		return nil, fmt.Errorf("encode the prober's plan: %w", err)
	}
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := r.post(streaming, "prober", "probe", plan)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := prober.Collect(streaming, body, r.rec.Clock(), r.rec)
		if err != nil {
			err = fmt.Errorf("the record of the prober broke off: %w", err)
			r.broken <- err
		}
		ended <- err
	}()
	return func(ctx context.Context) error {
		defer cancel()
		answer, err := r.post(ctx, "prober", "stop", nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer)
		_ = answer.Close()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the prober did not end its record within %s", stopTimeout)
		}
	}, nil
}
