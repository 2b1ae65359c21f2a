package prober

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// resolvConf is where the C library and Go look for the pod's DNS servers.
const resolvConf = "/etc/resolv.conf"

// Resolver is how a pod resolves names.
type Resolver struct {
	Servers []string `json:"servers"`
	Search  []string `json:"search"`
	// API is the address of the Service kubernetes, which shows the cluster's first IP
	// family; empty outside a cluster.
	API string `json:"api"`
	// NodeLocal is the address of the NodeLocal DNSCache that answers on the pod's node; empty if
	// none does.
	NodeLocal string `json:"node_local,omitempty"`
}

const (
	// nodeLocalAddress is where NodeLocal DNSCache listens, on its own node only, unless its
	// operator chose another address (Kubernetes, "Using NodeLocal DNSCache").
	nodeLocalAddress = "169.254.20.10"
	// nodeLocalWithin is how long an answer from the pod's own node may take.
	nodeLocalWithin = 300 * time.Millisecond
)

func serveResolver(w http.ResponseWriter, r *http.Request) {
	config, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		http.Error(w, fmt.Sprintf("read %s: %v", resolvConf, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	found := Resolver{Servers: config.Servers, Search: config.Search, API: os.Getenv("KUBERNETES_SERVICE_HOST")}
	if answersDNS(r.Context(), net.JoinHostPort(nodeLocalAddress, "53"), found.APIName()) {
		found.NodeLocal = nodeLocalAddress
	}
	_ = json.NewEncoder(w).Encode(found)
}

// APIName is the full name of the API server's Service, in the cluster's domain by the pod's search
// list, by default cluster.local. CoreDNS has it itself: for other names it may have to ask a server
// outside, which takes longer.
func (r Resolver) APIName() string {
	domain := ""
	if i := slices.IndexFunc(r.Search, func(s string) bool { return strings.HasPrefix(s, "svc.") }); i >= 0 {
		domain = strings.TrimSuffix(strings.TrimPrefix(r.Search[i], "svc."), ".")
	}
	return dns.Fqdn("kubernetes.default.svc." + cmp.Or(domain, "cluster.local"))
}

// answersDNS reports whether a DNS server at an address answers one of two queries for a name,
// whatever it reports.
func answersDNS(ctx context.Context, address, name string) bool {
	query := new(dns.Msg).SetQuestion(name, dns.TypeA)
	client := dns.Client{Timeout: nodeLocalWithin}
	for range 2 {
		if answer, _, err := client.ExchangeContext(ctx, query, address); err == nil && answer.Response {
			return true
		}
	}
	return false
}

const (
	// metricsPort is that of CoreDNS's plugin prometheus.
	metricsPort = "9153"
	// metricsWithin bounds the request for them, and maxMetrics their length in bytes.
	metricsWithin = 5 * time.Second
	maxMetrics    = 4 << 20
	// requestsMetric counts the requests that CoreDNS got.
	requestsMetric = "coredns_dns_requests_total" // not there before the first one
	buildMetric    = "coredns_build_info"
)

// serveLoad answers with the number of DNS requests that a CoreDNS pod has had so far, as its
// metrics count them. Only an address is accepted, so that nothing else can be requested.
func serveLoad(w http.ResponseWriter, r *http.Request) {
	ip, err := netip.ParseAddr(r.PathValue("ip"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+net.JoinHostPort(ip.String(), metricsPort)+"/metrics", http.NoBody)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	client := http.Client{Timeout: metricsWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		http.Error(w, fmt.Sprintf("read the metrics of CoreDNS: %v", err), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	total, err := requestsIn(io.LimitReader(response.Body, maxMetrics))
	if err != nil {
		http.Error(w, fmt.Sprintf("read the metrics of CoreDNS: %v", err), http.StatusBadGateway)
		return
	}
	_, _ = fmt.Fprintln(w, total)
}

// requestsIn is the sum of CoreDNS's counters of requests in metrics as text.
func requestsIn(metrics io.Reader) (uint64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return 0, err
	}
	if _, ok := families[buildMetric]; !ok {
		return 0, fmt.Errorf("they have no %s", buildMetric)
	}
	total := 0.0
	for _, m := range families[requestsMetric].GetMetric() {
		total += m.GetCounter().GetValue()
	}
	return uint64(total), nil
}
