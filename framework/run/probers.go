package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/scenarios"
)

// probing is one of the drill's probers, and the pod that records where its
// node sends its queries.
type probing struct {
	pod, flows, node string
	plan             prober.Plan
}

// probeLimit bounds a probe that nobody stops; the longest scenario takes five
// minutes.
const probeLimit = 15 * time.Minute

// startProbers makes the pods of the probers and of the recorders beside them.
// Nothing is asked yet.
func (r *drilling) startProbers(ctx context.Context) error {
	service, err := r.Cluster.DNSServiceIP(ctx)
	if err != nil {
		return err
	}
	control, err := r.control(ctx)
	if err != nil {
		return err
	}
	var addresses [2]netip.Addr
	for i, ip := range []string{service, control} {
		if addresses[i], err = netip.ParseAddr(ip); err != nil {
			return fmt.Errorf("address to ask: %w", err)
		}
	}
	all := r.Scenario.Probe.Probers
	err = r.create(ctx, "prober.yaml", map[string]string{
		"NAMESPACE": Namespace, "IMAGE": r.image, "PROBERS": fmt.Sprint(all), "WHERE": whereToProbe(all, r.targets()),
	})
	if err != nil {
		return err
	}
	pods, err := r.proberPods(ctx, all)
	if err != nil {
		return err
	}
	for i, pod := range pods {
		p := probing{pod: pod.Name, flows: fmt.Sprintf("conntrack-%d", i), node: pod.Spec.NodeName, plan: probePlan(*r.Scenario.Probe, i, addresses[0], addresses[1])}
		if err := p.plan.Validate(); err != nil {
			return fmt.Errorf("plan of a prober: %w", err)
		}
		err := r.create(ctx, "conntrack.yaml", map[string]string{
			"NAME": p.flows, "NAMESPACE": Namespace, "IMAGE": r.image, "NODE": p.node,
			"CLIENT_IP": pod.Status.PodIP, "SERVICE_IP": service,
		})
		if err != nil {
			return err
		}
		r.probers = append(r.probers, p)
	}
	return together(ctx, each(r.probers, func(ctx context.Context, p probing) error { return r.podReady(ctx, p.flows) })...)
}

// whereToProbe is the rule for the nodes of so many probers: a single one is where
// nothing ever happens, several are on any nodes that the scenario does nothing to.
func whereToProbe(probers int, targets []string) string {
	switch {
	case probers == 1:
		return "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}"
	case len(targets) == 0:
		return "{key: kubernetes.io/hostname, operator: Exists}"
	}
	return "{key: kubernetes.io/hostname, operator: NotIn, values: [" + strings.Join(targets, ", ") + "]}"
}

// proberPods waits for the pods of the Job, and returns them in order of their
// index.
func (r *drilling) proberPods(ctx context.Context, want int) (pods []corev1.Pod, err error) {
	err = cluster.Until(ctx, startTimeout, fmt.Sprintf("%d pods of Job %s/prober to be Ready", want, Namespace), func(ctx context.Context) string {
		list, err := r.Cluster.Clientset.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=prober"})
		if err != nil {
			return err.Error()
		}
		if pods = list.Items; len(pods) != want {
			return fmt.Sprintf("there are %d", len(pods))
		}
		for _, p := range pods {
			if why := whyNotReady(p); why != "" {
				return p.Name + ": " + why
			}
		}
		return ""
	})
	index := func(p corev1.Pod) string { return p.Annotations[batchv1.JobCompletionIndexAnnotation] } // one digit
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(index(a), index(b)) })
	return pods, err
}

// probePlan is what the i-th prober asks: its share of the service by the cluster
// IP in both port modes, and of a CoreDNS pod that stays as the control.
func probePlan(p scenarios.Probe, i int, service, control netip.Addr) prober.Plan {
	share := func(n int) int {
		if i < n%p.Probers {
			return n/p.Probers + 1
		}
		return n / p.Probers
	}
	plan := prober.Plan{For: probeLimit, Timeout: prober.DefaultTimeout}
	each, few := history.Fresh, history.Fixed
	if p.Transport == scenarios.TCP {
		each, few = history.Connect, history.Kept
	}
	for _, s := range []prober.QueryStream{
		{Target: history.Service, Server: netip.AddrPortFrom(service, 53), Mode: each, Rate: share(p.Fresh)},
		{Target: history.Service, Server: netip.AddrPortFrom(service, 53), Mode: few, Rate: share(p.Fixed), Ports: share(p.FixedPorts)},
		{Target: history.Control, Server: netip.AddrPortFrom(control, 53), Mode: history.Fresh, Rate: share(p.Control)},
	} {
		s.Questions = []prober.Question{{Name: p.Name, Type: dns.TypeA}}
		plan.Streams = append(plan.Streams, s)
	}
	return plan
}

// recordProbers starts probing and takes the records into the history. Stop ends
// the load, waits for the answers that are still out, and then takes in where the
// queries went.
func (r *drilling) recordProbers(ctx context.Context) (stop func(context.Context) error, err error) {
	var stops []func(context.Context) error
	for _, p := range r.probers {
		stop, err := r.recordProber(ctx, p)
		if err != nil {
			return nil, errors.Join(err, together(ctx, stops...))
		}
		stops = append(stops, stop)
	}
	return func(ctx context.Context) error { return errors.Join(together(ctx, stops...), r.collectFlows(ctx)) }, nil
}

func (r *drilling) recordProber(ctx context.Context, p probing) (stop func(context.Context) error, err error) {
	plan, err := json.Marshal(p.plan)
	if err != nil {
		return nil, fmt.Errorf("encode the prober's plan: %w", err)
	}
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := r.post(streaming, p.pod, "probe", plan)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := r.collect("the prober on "+p.node, func() error {
		_, err := prober.Collect(streaming, body, r.rec, p.node)
		return err
	})
	return func(ctx context.Context) error {
		defer cancel()
		answer, err := r.post(ctx, p.pod, "stop", nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer)
		_ = answer.Close()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the prober on %s did not end its record within %s", p.node, stopTimeout)
		}
	}, nil
}

// collectFlows takes into the history where the probers' nodes sent their queries,
// once the probers are silent: it is on their nodes that a service's address
// becomes a pod's.
func (r *drilling) collectFlows(ctx context.Context) error {
	if len(r.probers) == 0 {
		return nil
	}
	var all []history.Flow
	for _, p := range r.probers {
		body, err := r.get(ctx, p.flows, "flows")
		if err != nil {
			return err
		}
		flows, err := conntrack.Collect(body, r.rec, p.node)
		_ = body.Close()
		if err != nil {
			return err
		}
		all = append(all, flows...)
	}
	return r.rec.Flows(all)
}

// removeProbers takes away what an earlier drill asked and listened with.
func (s *System) removeProbers(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	ours := metav1.ListOptions{LabelSelector: "spotdrill.dev/part-of=probe"}
	if err := s.Cluster.Clientset.BatchV1().Jobs(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, ours); err != nil {
		return fmt.Errorf("remove the probers: %w", err)
	}
	return s.removePods(ctx, Namespace, ours, "the probers")
}
