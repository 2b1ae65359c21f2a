package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/wait"
)

// recorders record where the queries of the probers go; by the pods of the probers.
type recorders map[string]string

// startRecorders creates a recorder next to each prober, and waits until it has subscribed to the
// kernel's events.
func (p *placed) startRecorders(ctx context.Context, o Options, pods []corev1.Pod) (recorders, error) {
	all := recorders{}
	for _, pod := range pods {
		answer, err := p.get(ctx, p.namespace, pod.Name, proberPort, "resolver", p.token)
		if err != nil {
			return nil, err
		}
		var resolver prober.Resolver
		if err := json.Unmarshal(answer, &resolver); err != nil || len(resolver.Servers) == 0 {
			return nil, fmt.Errorf("read how pod %s resolves names: %s", pod.Name, answer)
		}
		recorder := p.name + "-flows" + pod.Name[strings.LastIndex(pod.Name, "-"):]
		err = p.create(ctx, "recorder.yaml", map[string]string{
			"NAME": p.name, "NAMESPACE": p.namespace, "OWNER": p.owner, "RECORDER": recorder, "NODE": pod.Spec.NodeName, "IMAGE": o.Image,
			"PORT": conntrack.Port, "CLIENT": pod.Status.PodIP, "SERVICE": net.JoinHostPort(resolver.Servers[0], "53"),
		})
		if err != nil {
			return nil, fmt.Errorf("%w; a namespace with the PodSecurity level restricted refuses --conntrack", err)
		}
		all[pod.Name] = recorder
	}
	for _, name := range all {
		err := wait.Until(ctx, startTimeout, "the recorder "+name+" to start", func(ctx context.Context) string {
			if _, err := p.get(ctx, p.namespace, name, conntrack.Port, "healthz", p.token); err != nil {
				return err.Error()
			}
			return ""
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// collectFlows takes into the history where the queries went. A recorder whose node has left is
// missing there, and so are the causes of what was lost from that node.
func (p *probers) collectFlows(ctx context.Context, recorders recorders) error {
	var mu sync.Mutex
	var flows []history.Flow
	var reading sync.WaitGroup
	for pod, recorder := range recorders {
		p.mu.Lock()
		name := p.names[pod]
		p.mu.Unlock()
		reading.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			body, err := p.request("GET", p.namespace, recorder, conntrack.Port, "flows", p.token).Stream(ctx)
			if err != nil {
				return
			}
			defer body.Close()
			of, err := conntrack.Collect(body, p.rec, name)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			flows = append(flows, of...)
		})
	}
	reading.Wait()
	if len(recorders) == 0 {
		return nil
	}
	return p.rec.Flows(flows)
}
