package prober

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestRequestsOfCoreDNSAreCountedFromItsMetrics(t *testing.T) {
	t.Parallel()
	const fresh = `# TYPE coredns_build_info gauge
coredns_build_info{goversion="go1.26.8",revision="",version="1.14.6"} 1
# TYPE coredns_panics_total counter
coredns_panics_total 7
`
	const metrics = fresh + `# HELP coredns_dns_requests_total Counter of DNS requests made per zone, protocol and family.
# TYPE coredns_dns_requests_total counter
coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="",zone="."} 120
coredns_dns_requests_total{family="1",proto="tcp",server="dns://:53",type="AAAA",view="",zone="."} 3
`
	for text, want := range map[string]uint64{fresh: 0, metrics: 123} {
		if total, err := requestsIn(strings.NewReader(text)); err != nil || total != want {
			t.Errorf("%d requests, error %v, want %d", total, err, want)
		}
	}
	if _, err := requestsIn(strings.NewReader("# TYPE go_goroutines gauge\ngo_goroutines 8\n")); err == nil {
		t.Error("metrics of another program gave no error")
	}
	if _, err := requestsIn(strings.NewReader("<html>")); err == nil {
		t.Error("a page that is no metrics gave no error")
	}
}

func TestWhetherANodeLocalCacheAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply func(*dns.Msg) *dns.Msg
		want  bool
	}{
		"it answers":                  {answer, true},
		"it refuses, and so is there": {func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(q, dns.RcodeRefused) }, true},
		"nothing is there":            {silence, false},
	} {
		if got := answersDNS(t.Context(), startServer(t, c.reply).addr.String(), "kubernetes.default.svc.cluster.local."); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTheNameOfTheAPIServersService(t *testing.T) {
	t.Parallel()
	for want, search := range map[string][]string{
		"kubernetes.default.svc.corp.example.":  {"ours.svc.corp.example", "svc.corp.example", "corp.example"},
		"kubernetes.default.svc.cluster.local.": nil,
	} {
		if got := (Resolver{Search: search}).APIName(); got != want {
			t.Errorf("%q gives %q, want %q", search, got, want)
		}
	}
}
