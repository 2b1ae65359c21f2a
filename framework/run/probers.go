package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/scenarios"
)

// probing is one of the drill's probers, and the pod that records where the prober's
// node sends its queries.
type probing struct {
	pod, flows, node string
	plan             prober.Plan
}

// probers query DNS, and request the application, during a drill.
type probers struct {
	*drill
	pods         pods
	dns          *clusterdns.CoreDNS
	coreDNSImage string    // of a control of our own
	all          []probing // none without a probe
}

// probeLimit bounds a probe that is never stopped; the longest scenario takes five
// minutes.
const probeLimit = 15 * time.Minute

// start creates the pods of the probers and of the conntrack recorders next to
// them. They send no query yet.
func (p *probers) start(ctx context.Context) error {
	serviceIP, err := p.dns.ServiceIP(ctx)
	if err != nil {
		return err
	}
	controlIP, port, err := p.chooseControl(ctx)
	if err != nil {
		return err
	}
	service, control, err := parseAddresses(serviceIP, controlIP)
	if err != nil {
		return err
	}
	requests, err := p.applicationStreams(ctx)
	if err != nil {
		return err
	}
	all := p.Scenario.Probe.Probers
	err = p.pods.create(ctx, "prober.yaml", map[string]string{
		"NAMESPACE": system.Namespace, "IMAGE": p.image, "PROBERS": fmt.Sprint(all), "WHERE": asYAML(whereToProbe(all, p.targets())),
	})
	if err != nil {
		return err
	}
	pods, err := p.proberPods(ctx, all)
	if err != nil {
		return err
	}
	for i, pod := range pods {
		one := probing{pod: pod.Name, flows: fmt.Sprintf("conntrack-%d", i), node: pod.Spec.NodeName, plan: probePlan(*p.Scenario.Probe, i, service, netip.AddrPortFrom(control, port), requests)}
		if err := one.plan.Validate(); err != nil {
			return fmt.Errorf("plan of a prober: %w", err)
		}
		err := p.pods.create(ctx, "conntrack.yaml", map[string]string{
			"NAME": one.flows, "NAMESPACE": system.Namespace, "IMAGE": p.image, "NODE": one.node,
			"ARGS": asYAML(recorderArgs(pod.Status.PodIP, one.plan)), "PORT": conntrack.Port,
		})
		if err != nil {
			return err
		}
		p.all = append(p.all, one)
	}
	var names []string
	for _, one := range p.all {
		names = append(names, one.pod, one.flows)
	}
	return inParallel(ctx, names, func(ctx context.Context, name string) error {
		return p.pods.PodReady(ctx, system.Namespace, name)
	})
}

// whereToProbe is the node affinity for that many probers: a single one runs where
// nothing ever happens, several run on any nodes that the scenario does not act on.
func whereToProbe(probers int, targets []string) corev1.NodeAffinity {
	switch {
	case probers == 1:
		return required(corev1.NodeSelectorRequirement{Key: nodes.CapacityLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{nodes.OnDemand}})
	case len(targets) == 0:
		return required(corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists})
	}
	return required(corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: targets})
}

// proberPods waits until the pods of the Job have addresses, and returns them in order of
// their index. They need not be Ready for their recorders to start.
func (p *probers) proberPods(ctx context.Context, want int) (pods []corev1.Pod, err error) {
	err = wait.Until(ctx, objects.StartTimeout, fmt.Sprintf("%s of Job %s/prober to have addresses", history.Count(want, "pod"), system.Namespace), func(ctx context.Context) string {
		list, err := p.pods.Clientset.CoreV1().Pods(system.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=prober"})
		if err != nil {
			return err.Error()
		}
		pods = list.Items
		if len(pods) != want {
			return fmt.Sprintf("there are %d", len(pods))
		}
		for _, pod := range pods {
			if pod.Status.PodIP == "" {
				return pod.Name + ": " + objects.WhyNotReady(pod)
			}
		}
		return ""
	})
	index := func(p corev1.Pod) string { return p.Annotations[batchv1.JobCompletionIndexAnnotation] } // one digit
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(index(a), index(b)) })
	return pods, err
}

// chooseControl returns the IP of a CoreDNS pod that stays, and the port at which it answers: one of the cluster's or, if
// the scenario acts on all of them, one of our own.
func (p *probers) chooseControl(ctx context.Context) (ip string, port uint16, err error) {
	if p.Scenario.KeepsDNSPod() {
		pod, err := p.controlPod(ctx)
		p.Record(history.NewControlChosen("", pod.Name, pod.IP))
		return pod.IP, pod.Port, err
	}
	ip, err = p.startControl(ctx, "control", "", map[string]string{"NAMESPACE": system.Namespace, "COREDNS_IMAGE": p.coreDNSImage})
	return ip, coredns.DNSPort, err
}

// startControl creates a control, a pod that no step touches, from the manifest of its name, and
// returns its IP once it is Ready. Key names the service that it is compared with; empty for
// kube-dns.
func (p *probers) startControl(ctx context.Context, name, key string, values map[string]string) (string, error) {
	if err := p.pods.create(ctx, name+".yaml", values); err != nil {
		return "", err
	}
	if err := p.pods.PodReady(ctx, system.Namespace, name); err != nil {
		return "", err
	}
	pod, err := p.pods.Clientset.CoreV1().Pods(system.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the address of the control %s: %w", name, err)
	}
	p.Record(history.NewControlChosen(key, system.Namespace+"/"+name, pod.Status.PodIP))
	return pod.Status.PodIP, nil
}

// parseAddresses parses the IPs of a service and of its control.
func parseAddresses(serviceIP, controlIP string) (service, control netip.Addr, err error) {
	if service, err = netip.ParseAddr(serviceIP); err == nil {
		control, err = netip.ParseAddr(controlIP)
	}
	if err != nil {
		return service, control, fmt.Errorf("address to probe: %w", err)
	}
	return service, control, nil
}

// controlPod is a CoreDNS pod on a node that the scenario does not act on. It waits for
// one: a pod on a node that has just come back may be marked not Ready once more.
func (p *probers) controlPod(ctx context.Context) (control clusterdns.Pod, err error) {
	err = wait.Until(ctx, objects.StartTimeout, "a CoreDNS pod that stays, to be the control", func(ctx context.Context) string {
		pods, err := p.dns.ReadyPods(ctx)
		if err != nil {
			return err.Error()
		}
		var where []string
		for _, pod := range pods {
			if !slices.Contains(p.targets(), pod.Node) {
				control = pod
				return ""
			}
			where = append(where, pod.Node)
		}
		return fmt.Sprintf("the Ready ones are on nodes that are drained (%s)", strings.Join(where, ", "))
	})
	return control, err
}

// recorderArgs are the arguments of a recorder of the flows of a plan to Services.
func recorderArgs(client string, plan prober.Plan) []string {
	services := map[string]bool{}
	for _, s := range plan.Streams {
		switch s.Target {
		case history.Service:
			services[fmt.Sprintf("--service=%s", s.Server)] = true
		case history.Application:
			services[fmt.Sprintf("--service=%s=%s", s.Target, s.Server)] = true
		}
	}
	return append([]string{"conntrack", "--listen=:" + conntrack.Port, "--token-file=/var/run/control/token", "--client=" + client}, slices.Sorted(maps.Keys(services))...)
}

// probePlan is the load of the i-th prober: its share of the queries to the service's
// cluster IP in both port modes, of those to the control, a CoreDNS pod that stays, and of the
// requests to an application.
func probePlan(p scenarios.Probe, i int, service netip.Addr, control netip.AddrPort, requests []prober.QueryStream) prober.Plan {
	share := func(n int) int {
		if i < n%p.Probers {
			return n/p.Probers + 1
		}
		return n / p.Probers
	}
	plan := prober.Plan{For: probeLimit, Timeout: prober.DefaultTimeout}
	var streams []prober.QueryStream
	for _, transport := range p.Transport.Each() {
		each, few := transport.Modes()
		streams = append(streams,
			prober.QueryStream{Target: history.Service, Server: netip.AddrPortFrom(service, coredns.DNSPort), Mode: each, Rate: share(p.Fresh)},
			prober.QueryStream{Target: history.Service, Server: netip.AddrPortFrom(service, coredns.DNSPort), Mode: few, Rate: share(p.Fixed), Ports: share(p.FixedPorts)})
	}
	for _, s := range append(streams, prober.QueryStream{Target: history.Control, Server: control, Mode: history.Fresh, Rate: share(p.Control)}) {
		s.Questions = questions(p, fmt.Sprintf("%s-%s-%d", s.Target, s.Mode, i))
		plan.Streams = append(plan.Streams, s)
	}
	for _, s := range requests {
		s.Rate, s.Ports = share(s.Rate), share(s.Ports)
		plan.Streams = append(plan.Streams, s)
	}
	return plan
}

// questions are what a stream of that name asks. With Names, no other stream asks the same.
func questions(p scenarios.Probe, stream string) []prober.Question {
	if p.Names == 0 {
		return []prober.Question{{Name: p.Name, Type: dns.TypeA}}
	}
	out := make([]prober.Question, p.Names)
	for n := range out {
		out[n] = prober.Question{Name: fmt.Sprintf("n%d.%s.%s", n, stream, p.Name), Type: dns.TypeA}
	}
	return out
}

// record starts probing and takes the records into the history. Stop ends
// the load, waits for the outstanding answers, and then reads where the queries went.
func (p *probers) record(ctx context.Context) (stop recording.Stop, err error) {
	var starts []recording.Start
	for _, one := range p.all {
		starts = append(starts, func(ctx context.Context) (recording.Stop, error) { return p.recordOne(ctx, one) })
	}
	stops, err := recording.StartAll(ctx, starts)
	return func(ctx context.Context) error {
		stopped := inParallel(ctx, stops, func(ctx context.Context, stop recording.Stop) error { return stop(ctx) })
		return errors.Join(stopped, p.collectFlows(ctx))
	}, err
}

func (p *probers) recordOne(ctx context.Context, one probing) (stop recording.Stop, err error) {
	plan, err := json.Marshal(one.plan)
	if err != nil {
		return nil, fmt.Errorf("encode the prober's plan: %w", err)
	}
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	body, err := p.pods.post(streaming, one.pod, "probe", plan)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := p.collect("the prober on "+one.node, func() error {
		_, err := prober.Collect(streaming, body, p.Recorder, one.node)
		return err
	})
	return func(ctx context.Context) error {
		defer cancel()
		answer, err := p.pods.post(ctx, one.pod, "stop", nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer)
		_ = answer.Close()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the prober on %s did not end its record within %s", one.node, StopTimeout)
		}
	}, nil
}

// collectFlows takes into the history where the probers' nodes sent their queries,
// once the probers are silent: their nodes translate the service's address to a
// pod's.
func (p *probers) collectFlows(ctx context.Context) error {
	if len(p.all) == 0 {
		return nil
	}
	var all []history.Flow
	for _, one := range p.all {
		body, err := p.pods.PodRequest(http.MethodGet, system.Namespace, one.flows, conntrack.Port, "flows").Stream(ctx)
		if err != nil {
			return fmt.Errorf("read the flows of pod %s: %w", one.flows, err)
		}
		flows, err := conntrack.Collect(body, p.Recorder, one.node)
		_ = body.Close()
		if err != nil {
			return err
		}
		all = append(all, flows...)
	}
	return p.Flows(all)
}

// applicationStreams are what the probers request of the workload's Service and of its control,
// a pod of its own; none without an application. The rates are those of all probers together.
func (p *probers) applicationStreams(ctx context.Context) ([]prober.QueryStream, error) {
	if !p.application() {
		return nil, nil
	}
	service, err := p.pods.Clientset.CoreV1().Services(p.namespace).Get(ctx, scenarios.App, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the address of the workload's Service: %w", err)
	}
	controlIP, err := p.startControl(ctx, history.ApplicationControl, scenarios.App, map[string]string{"NAMESPACE": system.Namespace, "IMAGE": p.image})
	if err != nil {
		return nil, err
	}
	to, control, err := parseAddresses(service.Spec.ClusterIP, controlIP)
	if err != nil {
		return nil, err
	}
	return applicationPlan(*p.Scenario.Probe.Application, netip.AddrPortFrom(to, 80), netip.AddrPortFrom(control, 8080)), nil
}

// applicationPlan is the load of all probers together.
func applicationPlan(a scenarios.ApplicationProbe, service, control netip.AddrPort) []prober.QueryStream {
	each, path := history.HTTP, "/"
	if a.Transport == scenarios.OverTCP {
		each, path = history.Dial, ""
	}
	streams := []prober.QueryStream{
		{Target: history.Application, Server: service, Mode: each, Rate: a.Fresh, Path: path},
		{Target: history.ApplicationControl, Server: control, Mode: each, Rate: a.Control, Path: path},
	}
	if a.Fixed > 0 {
		streams = append(streams, prober.QueryStream{Target: history.Application, Server: service, Mode: history.HTTPKept, Rate: a.Fixed, Ports: a.FixedPorts, Path: path})
	}
	return streams
}
