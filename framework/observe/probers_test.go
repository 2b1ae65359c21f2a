package observe

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/scenarios"
)

func options(t *testing.T) Options {
	t.Helper()
	s, err := scenarios.Loader{}.Observation()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Namespace: DefaultNamespace, Image: "example/spotdrill:v1", Rate: DefaultRate, MaxShare: DefaultShare, MaxQueries: DefaultQueries, SettleLimit: DefaultSettleLimit, Scenario: s}
}

func TestAPodsOwnResolverIsQueried(t *testing.T) {
	t.Parallel()
	search := []string{"ours.svc.corp.example.", "svc.corp.example", "corp.example"}
	for name, c := range map[string]struct {
		resolver  prober.Resolver
		names     []string
		ip, found string
		question  string
		rrtype    uint16
	}{
		"CoreDNS":            {prober.Resolver{Servers: []string{"10.96.0.10"}, Search: search, API: "10.96.0.1"}, nil, "10.96.0.10", kubeDNS, "kubernetes.default.svc.corp.example.", dns.TypeA},
		"NodeLocal DNSCache": {prober.Resolver{Servers: []string{"169.254.20.10"}, Search: search, API: "10.96.0.1"}, nil, "169.254.20.10", nodeLocalDNS, "kubernetes.default.svc.corp.example.", dns.TypeA},
		"NodeLocal DNSCache with the Service's address": {prober.Resolver{Servers: []string{"10.96.0.10"}, Search: search, API: "10.96.0.1", NodeLocal: "169.254.20.10"}, nil, "10.96.0.10", nodeLocalDNS, "kubernetes.default.svc.corp.example.", dns.TypeA},
		"a cluster with IPv6":                           {prober.Resolver{Servers: []string{"fd00:10:96::a"}, Search: search, API: "fd00:10:96::1"}, nil, "fd00:10:96::a", kubeDNS, "kubernetes.default.svc.corp.example.", dns.TypeAAAA},
		"a pod without search":                          {prober.Resolver{Servers: []string{"10.96.0.10", "10.0.0.2"}}, nil, "10.96.0.10", kubeDNS, "kubernetes.default.svc.cluster.local.", dns.TypeA},
		"an external name":                              {prober.Resolver{Servers: []string{"10.96.0.10"}, Search: search}, []string{"example.org"}, "10.96.0.10", kubeDNS, "example.org.", dns.TypeA},
		"an address with a net":                         {prober.Resolver{Servers: []string{"fe80::1"}, Search: search}, nil, "fe80::1", nodeLocalDNS, "kubernetes.default.svc.corp.example.", dns.TypeA},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProbers(&placed{}, options(t), nil, []netip.AddrPort{netip.MustParseAddrPort("10.244.0.2:53"), netip.MustParseAddrPort("10.244.0.3:5353")})
			p.Names = c.names
			plan, found, err := p.plan(c.resolver)
			if err != nil {
				t.Fatal(err)
			}
			asked := plan.Streams[0].Questions[0]
			if found.IP != c.ip || found.Target() != c.found || asked.Name != c.question || asked.Type != c.rrtype {
				t.Errorf("%s %s asks %+v; want %s %s, %s %d", found.Target(), found.IP, asked, c.found, c.ip, c.question, c.rrtype)
			}
			if len(plan.Streams) != 4 || plan.Streams[3].Target != history.Direct("10.244.0.3") || plan.Streams[3].Server.Port() != 5353 || plan.Streams[0].Server.Port() != 53 {
				t.Errorf("streams %+v: want two to the service, and one to each pod", plan.Streams)
			}
			if plan.Streams[0].Rate+plan.Streams[1].Rate != DefaultRate {
				t.Errorf("rates %d and %d, want %d together", plan.Streams[0].Rate, plan.Streams[1].Rate, DefaultRate)
			}
		})
	}
	for transport, want := range map[scenarios.Transport][]history.Mode{
		scenarios.TCP:  {history.Connect, history.Kept},
		scenarios.Both: {history.Fresh, history.Fixed, history.Connect, history.Kept},
	} {
		p := newProbers(&placed{}, options(t), nil, nil)
		p.Transport = transport
		plan, _, err := p.plan(prober.Resolver{Servers: []string{"10.96.0.10"}})
		var modes []history.Mode
		for _, s := range plan.Streams {
			modes = append(modes, s.Mode)
		}
		if rate := p.recorded(0) - echoRate; err != nil || !slices.Equal(modes, want) || rate != DefaultRate*len(want)/2 {
			t.Errorf("over %s: %v at %d queries/s, error %v; want %v", transport, modes, rate, err, want)
		}
		if probe := p.probe(3); probe.Transport != transport {
			t.Errorf("the scenario has transport %s, want %s", probe.Transport, transport)
		}
	}
	p := newProbers(&placed{}, options(t), nil, nil)
	p.Application = "10.96.12.7:80/healthz?full"
	plan, _, err := p.plan(prober.Resolver{Servers: []string{"10.96.0.10"}})
	if err != nil || len(plan.Streams) != 4 || plan.Streams[2].Target != history.Application || plan.Streams[3].Path != "/healthz?full" {
		t.Errorf("with an application: %+v, error %v", plan.Streams, err)
	}
	for _, bad := range []prober.Resolver{{}, {Servers: []string{"dns.example"}}} {
		if _, _, err := newProbers(&placed{}, options(t), nil, nil).plan(bad); err == nil {
			t.Errorf("%+v gave no error", bad)
		}
	}
}

func TestOptionsThatCannotBeObserved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*Options)
		want string
	}{
		"a malformed image":        {func(o *Options) { o.Image = "Not:A:Reference" }, "--image is"},
		"no namespace":             {func(o *Options) { o.Namespace = "Bad_NS" }, "--namespace is \"Bad_NS\""},
		"a transport that is none": {func(o *Options) { o.Transport = "sctp" }, "--transport"},
		"too few queries":          {func(o *Options) { o.Rate = MinRate - 1 }, "--rate"},
		"too many queries":         {func(o *Options) { o.Rate = scenarios.MaxObservedRate + 1 }, "--rate"},
		"too many probers":         {func(o *Options) { o.Probers = 101 }, "--probers"},
		"a broken selector":        {func(o *Options) { o.Nodes = "a in b" }, "--nodes"},
		"too long":                 {func(o *Options) { o.For = 4 * time.Hour }, "up to 3h30m0s"},
		"no settle limit":          {func(o *Options) { o.SettleLimit = 0 }, "--settle-limit"},
		"a limit too long":         {func(o *Options) { o.SettleLimit = time.Hour }, "to 20m0s"},
		"settles too soon":         {func(o *Options) { o.Settle = time.Millisecond }, "--settle is 1ms"},
		"no queries":               {func(o *Options) { o.MaxQueries = 0 }, "--max-queries"},
		"no port of an app":        {func(o *Options) { o.Application = "10.96.12.7/healthz" }, "--application"},
		"no share":                 {func(o *Options) { o.MaxShare = 0 }, "--max-share"},
		"more than all":            {func(o *Options) { o.Gates.SLO = 101 }, "--slo"},
		"a negative losses":        {func(o *Options) { o.AbortLost = -1 }, "--abort-lost"},
		"several, all named":       {func(o *Options) { o.Image, o.Rate = "A:", 0 }, "--rate is 0"},
	} {
		o := options(t)
		c.edit(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %s", name, err, c.want)
		}
	}
	if err := options(t).Check(); err != nil {
		t.Error(err)
	}
}

func TestLoadIsComparedWithCoreDNSsOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		load Load
		want string
	}{
		"a few queries, whatever the own rate":  {Load{Adds: 150, DNSPods: 2, Own: 1, Known: true}, ""},
		"many, and few next to the own rate":    {Load{Adds: 5000, DNSPods: 2, Own: 20_000, Known: true}, ""},
		"many, and more than half of the own":   {Load{Adds: 5000, DNSPods: 2, Own: 8000, Known: true}, "have 8000/s of their own: lower --rate to 4 ("},
		"many, and the own rate is not known":   {Load{Adds: 5000, DNSPods: 2, Why: "no metrics"}, "its own rate is not known (no metrics)"},
		"many pods share what few could not":    {Load{Adds: 5000, DNSPods: 50}, ""},
		"no pod at all is as one, not infinite": {Load{Adds: 150}, ""},
	} {
		if got := c.load.TooMuch(DefaultShare, 50); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheKeeperEndsSoonAfterItsClient(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const patience = 400 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- Keep(t.Context(), l, "secret", patience) }()
	beat := func(token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/beat", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(guard.Header, token)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	start := time.Now()
	for time.Since(start) < 2*patience {
		if code := beat("secret"); code != http.StatusOK {
			t.Fatalf("status %d", code)
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended after %s while its client was alive: %v", time.Since(start), err)
		case <-time.After(patience / 8):
		}
	}
	if code := beat("guess"); code != http.StatusForbidden {
		t.Errorf("a stranger keeps it alive: status %d", code)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v: its Job would begin again", err)
	}
}

func TestADrainedKeeperIsStartedElsewhere(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, terminate := context.WithCancel(t.Context())
	terminate()
	if err := Keep(ctx, l, "secret", time.Minute); err == nil {
		t.Error("it ended without an error: its Job would be complete, and everything removed")
	}
}

// What is judged must fit into memory, however many probers there are.
func TestTheRecordBoundsTheTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		probers int
		is      time.Duration
		want    time.Duration
		err     string
	}{
		"three probers, a command":    {3, 0, MaxFor, ""},
		"three probers, ten minutes":  {3, 10 * time.Minute, 10 * time.Minute, ""},
		"a hundred, a command":        {100, 0, 379 * time.Second, ""},
		"a hundred, five minutes":     {100, 5 * time.Minute, 5 * time.Minute, ""},
		"a hundred, for ten minutes":  {100, 10 * time.Minute, 0, "give a --for of up to 6m19s"},
		"fifty, for as long as it is": {50, 12 * time.Minute, 12 * time.Minute, ""},
	} {
		o := options(t)
		o.For = c.is
		got, err := o.limit(c.probers * o.recorded(2))
		if got != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v, want %v, %q", name, got, err, c.want, c.err)
		}
	}
	o := options(t)
	few, many := o.recorded(1), o.recorded(20)
	if o.Application = "10.96.12.7:80/"; many <= few || o.recorded(20) <= many {
		t.Error("the application and CoreDNS's pods count as well")
	}
}
