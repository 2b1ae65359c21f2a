package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/wait"
)

const (
	// lookEvery is the time between two looks for probers that have started, on nodes that joined or
	// again.
	lookEvery = time.Second
	// stopTimeout bounds the end of a record: the last query's timeout, and the way.
	stopTimeout = 20 * time.Second
)

// probers are those of an observation, and their records.
type probers struct {
	*placed
	Options
	rec *history.Recorder
	// direct are the CoreDNS pods that are queried directly.
	direct []netip.AddrPort
	// ending is closed when the observation has ended.
	ending chan struct{}

	mu      sync.Mutex
	names   map[string]string // by pod
	on      map[string]int    // how many there were on each node
	running map[string]bool   // pods whose record is being collected
	started map[string]bool   // pods that have begun one
	records sync.WaitGroup
}

func newProbers(p *placed, o Options, rec *history.Recorder, direct []netip.AddrPort) *probers {
	return &probers{
		placed: p, Options: o, rec: rec, direct: direct[:min(len(direct), maxDirect)], ending: make(chan struct{}),
		names: map[string]string{}, on: map[string]int{}, running: map[string]bool{}, started: map[string]bool{},
	}
}

// follow starts every prober that runs, until ctx ends.
func (p *probers) follow(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if list, err := p.Clientset.CoreV1().Pods(p.namespace).List(ctx, p.selected()); err == nil {
			for _, pod := range list.Items {
				if running(pod) {
					p.begin(ctx, pod)
				}
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// begin starts a prober's record, unless it is being collected.
func (p *probers) begin(ctx context.Context, pod corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[pod.Name] || ctx.Err() != nil {
		return
	}
	name := p.names[pod.Name]
	if name == "" {
		p.on[pod.Spec.NodeName]++
		if name = pod.Spec.NodeName; p.on[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, p.on[name])
		}
		p.names[pod.Name] = name
	}
	p.running[pod.Name] = true
	p.records.Go(func() {
		begun, err := p.record(ctx, pod, name)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, pod.Name)
		if err != nil && begun { // one that cannot begin is tried again
			p.rec.Record(history.NewProberBroke(name, oneLine(err), history.Pod(p.namespace+"/"+pod.Name)))
		}
	})
}

// record collects one record of a prober to its end, and reports whether it had begun. The end of
// ctx does not end it; stop does.
func (p *probers) record(ctx context.Context, pod corev1.Pod, name string) (begun bool, err error) {
	answer, err := p.get(ctx, p.namespace, pod.Name, proberPort, "resolver", p.token)
	if err != nil {
		return false, err
	}
	var resolver prober.Resolver
	if err := json.Unmarshal(answer, &resolver); err != nil {
		return false, fmt.Errorf("read how pod %s resolves names: %w", pod.Name, err)
	}
	plan, found, err := p.plan(resolver)
	if err != nil {
		return false, fmt.Errorf("plan of the prober on %s: %w", name, err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return false, fmt.Errorf("encode the plan of the prober on %s: %w", name, err)
	}
	if err := p.start(ctx, pod.Name, text); err != nil {
		return false, fmt.Errorf("start the prober on %s: %w", name, err)
	}
	found.Node, found.Pod = name, p.namespace+"/"+pod.Name
	p.rec.Record(found)
	p.mu.Lock()
	p.started[pod.Name] = true
	p.mu.Unlock()
	record := &parts{
		open: func(ctx context.Context, from int64) (io.ReadCloser, error) {
			return p.request(http.MethodGet, p.namespace, pod.Name, proberPort, "record", p.token).Param("from", strconv.FormatInt(from, 10)).Stream(ctx)
		},
		resumed: func(took time.Duration, why error) {
			p.rec.Record(history.NewProberResumed(name, oneLine(why), history.Pod(p.namespace+"/"+pod.Name), history.With(history.Numbers{history.Took: took.Seconds()})))
		},
		ending: p.ending, silentFor: silentFor, within: resumeWithin, away: serverWithin,
	}
	defer record.Close()
	_, err = prober.Collect(context.WithoutCancel(ctx), record, p.rec, name)
	return true, err
}

func (p *probers) start(ctx context.Context, pod string, plan []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	answer, err := p.request(http.MethodPost, p.namespace, pod, proberPort, "probe", p.token).Param("patience", resumeWithin.String()).
		SetHeader("Content-Type", "application/json").Body(plan).DoRaw(ctx)
	if err != nil {
		return withAnswer(err, answer)
	}
	return nil
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// The keys of history.TargetFound.
const (
	kubeDNS      = "kube-dns"
	nodeLocalDNS = "node-local-dns"
)

// plan is what a prober does whose pod resolves names in that way, and what it queries as the
// service.
func (p *probers) plan(r prober.Resolver) (prober.Plan, history.Event, error) {
	if len(r.Servers) == 0 {
		return prober.Plan{}, history.Event{}, errors.New("its resolv.conf names no server")
	}
	server, err := netip.ParseAddr(r.Servers[0])
	if err != nil {
		return prober.Plan{}, history.Event{}, fmt.Errorf("its resolv.conf names the server %q: %w", r.Servers[0], err)
	}
	questions := p.questions(r)
	each := p.eachRate()
	service := netip.AddrPortFrom(server, coredns.DNSPort)
	plan := prober.Plan{
		For: prober.MaxFor, Timeout: prober.DefaultTimeout, Echo: echoRate,
	}
	for _, transport := range p.Transport.Each() {
		fresh, fixed := transport.Modes()
		plan.Streams = append(plan.Streams,
			prober.QueryStream{Target: history.Service, Server: service, Mode: fresh, Rate: each.fresh, Questions: questions},
			prober.QueryStream{Target: history.Service, Server: service, Mode: fixed, Rate: each.fixed, Ports: each.ports, Questions: questions})
	}
	for _, pod := range p.direct {
		plan.Streams = append(plan.Streams, prober.QueryStream{
			Target: history.Direct(pod.Addr().String()), Server: pod, Mode: history.Fresh, Rate: directRate, Questions: questions[:1],
		})
	}
	application, path, err := p.application()
	if err != nil {
		return plan, history.Event{}, fmt.Errorf("address of the application: %w", err)
	}
	if p.Application != "" {
		for mode, ports := range map[history.Mode]int{history.HTTP: 0, history.HTTPKept: each.ports} {
			plan.Streams = append(plan.Streams, prober.QueryStream{Target: history.Application, Server: application, Mode: mode, Rate: applicationRate, Ports: ports, Path: path})
		}
	}
	target := kubeDNS
	// With kube-proxy in iptables mode, NodeLocal DNSCache also has the address of CoreDNS's Service.
	if server.IsLinkLocalUnicast() || r.NodeLocal != "" {
		target = nodeLocalDNS
	}
	var names []string
	for _, q := range questions {
		names = append(names, q.Name+" "+dns.TypeToString[q.Type])
	}
	return plan, history.NewTargetFound("", target, server.String(), history.Note(strings.Join(names, ", "))), plan.Validate()
}

// questions are those of the names, or of the API server's Service: its address is of the
// cluster's first IP family.
func (p *probers) questions(r prober.Resolver) []prober.Question {
	family := dns.TypeA
	if api, err := netip.ParseAddr(r.API); err == nil && api.Is6() {
		family = dns.TypeAAAA
	}
	names := p.Names
	if len(names) == 0 {
		names = []string{r.APIName()}
	}
	var out []prober.Question
	for _, name := range names {
		out = append(out, prober.Question{Name: dns.Fqdn(name), Type: family})
	}
	return out
}

func (p *probers) begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.started)
}

// stop ends the probers, and waits for the ends of their records.
func (p *probers) stop(ctx context.Context) error {
	within := serverWithin
	if ctx.Err() != nil { // someone waits for the end
		within = answerTimeout
	}
	ctx = context.WithoutCancel(ctx)
	if p.Progress != nil {
		p.Progress("ending the probers, through the API server")
	}
	p.awaitServer(ctx, within)
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	close(p.ending)
	p.mu.Lock()
	pods := make([]string, 0, len(p.running))
	for pod := range p.running {
		pods = append(pods, pod)
	}
	p.mu.Unlock()
	var asked sync.WaitGroup
	for _, pod := range pods {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			// If that fails, its record breaks off or ends late, and shows it.
			if body, err := p.request(http.MethodPost, p.namespace, pod, proberPort, "stop", p.token).Stream(ctx); err == nil {
				_, _ = io.Copy(io.Discard, body)
				_ = body.Close()
			}
		})
	}
	asked.Wait()
	done := make(chan struct{})
	go func() { p.records.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the probers did not end their records within %s", stopTimeout)
	}
}

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
			"PORT": conntrack.Port, "CLIENT": pod.Status.PodIP, "SERVICE": net.JoinHostPort(resolver.Servers[0], strconv.Itoa(coredns.DNSPort)),
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
