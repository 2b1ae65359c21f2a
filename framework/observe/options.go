package observe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// DefaultNamespace is where everything of an observation is.
	DefaultNamespace = "spotdrill-observe"
	// DefaultRate is safe next to what a busy node's pods ask, in queries/s of each prober.
	DefaultRate = 50
	// MinRate leaves no time without a query in which an outage could hide.
	MinRate = 20
	// MaxFor bounds an observation: a prober sends no longer than prober.MaxFor.
	MaxFor = prober.MaxFor - 30*time.Minute
	// DefaultQueries is how many queries may be on record: they are judged within 1 GiB.
	DefaultQueries = 3_000_000
	// DefaultShare is how much of CoreDNS's own rate the probers may add, see Load.
	DefaultShare = 0.5
	// directRate is the rate of queries to each CoreDNS pod by its own IP, of each prober.
	directRate = 2
	// applicationRate is the rate of requests to an application of each prober: as many over a new
	// connection each as over connections that are kept.
	applicationRate = 10
	// maxDirect bounds how many CoreDNS pods a prober queries directly.
	maxDirect = 8
	// DefaultSettleLimit is enough for a rollout of CoreDNS and for a drain.
	DefaultSettleLimit = 5 * time.Minute
	// MaxSettleLimit is within what the probers go on for after MaxFor.
	MaxSettleLimit = 20 * time.Minute
	// echoRate is the rate of a prober's queries to itself. With that of a drill, they would
	// be two thirds of the record.
	echoRate = 25
)

// Options define an observation.
type Options struct {
	// Context names the cluster in reports.
	Context   string
	Namespace string
	// Image is one with spotdrill that the nodes can pull, or have. Check accepts an empty one: it can be
	// chosen once the cluster is known.
	Image string
	// Nodes selects the nodes of the probers, as a label selector; empty for all.
	Nodes string
	// Probers is how many there are, spread over zones and nodes; 0 for one on each node, also
	// on those that leave and on those that join.
	Probers int
	// Rate is in queries/s of each prober to the DNS service, over each transport.
	Rate int
	// Transport is what carries these queries; empty for UDP.
	Transport scenarios.Transport
	// Names are queried in turn; empty for the name of the API server's Service.
	Names []string
	// DNS is the Service of CoreDNS.
	DNS types.NamespacedName
	// Application is the address of an application that is requested over HTTP as well, with the
	// path, such as 10.96.12.7:80/healthz; empty for none.
	Application string
	// For is how long it may take; 0 for as long as MaxQueries allow, up to MaxFor.
	For time.Duration
	// MaxQueries is how many queries may be on record, with those of the probers to themselves.
	MaxQueries int
	// MaxShare is how much of CoreDNS's own rate the probers may add.
	MaxShare float64
	// Conntrack records to which pod each query went, from a privileged pod on each node.
	Conntrack bool
	// AbortLost ends it once more queries than this are lost; 0 for never.
	AbortLost int
	// Scenario is what is recorded and judged.
	Scenario scenarios.Scenario
	// Settle is how long the record goes on after all that began has ended; 0 for the scenario's time.
	Settle time.Duration
	// SettleLimit bounds how long that is waited for.
	SettleLimit time.Duration
	// Unsettled is why the record has to go on, by what was recorded up to now, and since when
	// nothing of that has changed.
	Unsettled func(s scenarios.Scenario, h history.History, now time.Duration) (why []string, since time.Duration)
	// Scenarios loads it again with its probe and gates.
	Scenarios scenarios.Loader
	// Gates are its bounds.
	Gates scenarios.Gates
	// Console gets the progress.
	Console io.Writer
	// Progress, if set, replaces the current line of the console.
	Progress func(string)
}

// Check returns all errors of the options.
func (o Options) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := validImage(o.Image); err != nil {
		bad("--image is %q: %w", o.Image, err)
	}
	if err := namespaceName(o.Namespace); err != nil {
		bad("--namespace is %w", err)
	}
	if o.Rate < MinRate || o.Rate > scenarios.MaxObservedRate {
		bad("--rate is %d: want %d to %d queries/s", o.Rate, MinRate, scenarios.MaxObservedRate)
	}
	if !slices.Contains(append(scenarios.Transports(), ""), o.Transport) {
		bad("--transport is %q: want %s, %s, or both", o.Transport, scenarios.UDP, scenarios.TCP)
	}
	if o.Probers < 0 || o.Probers > scenarios.MaxObservers {
		bad("--probers is %d: want 1 to %d, or 0 for one on each node", o.Probers, scenarios.MaxObservers)
	}
	if _, err := labels.Parse(o.Nodes); err != nil {
		bad("--nodes is %q: want a label selector such as karpenter.sh/capacity-type=spot: %w", o.Nodes, err)
	}
	if _, _, err := o.application(); err != nil {
		bad("--application is %q: want an address, a port and a path, such as 10.96.12.7:80/healthz", o.Application)
	}
	if o.For < 0 || o.For > MaxFor {
		bad("--for is %v: want up to %v", o.For, MaxFor)
	}
	if o.Settle != 0 && o.Settle < time.Second || o.SettleLimit < max(o.Settle, time.Second) || o.SettleLimit > MaxSettleLimit {
		bad("--settle is %v and --settle-limit is %v: want at least 1s, and a limit from --settle to %v", o.Settle, o.SettleLimit, MaxSettleLimit)
	}
	if o.MaxQueries <= 0 || o.MaxQueries > history.MostQueries {
		bad("--max-queries is %d: want 1 to %d", o.MaxQueries, history.MostQueries)
	}
	if o.MaxShare <= 0 {
		bad("--max-share is %v: want more than 0", o.MaxShare)
	}
	if slo := o.Gates.SLO; slo < 0 || slo > 100 {
		bad("--slo is %v: want a share in percent, such as 99.99", slo)
	}
	if o.Conntrack && o.Probers > 0 {
		bad("--conntrack and --probers: connection tracking is recorded for one prober on each node")
	}
	if o.AbortLost < 0 {
		bad("--abort-lost is %d: want at least 1, or 0 for never", o.AbortLost)
	}
	return errors.Join(errs...)
}

// probe is the load of that many probers, all together, as the scenario has it.
func (o Options) probe(probers int) scenarios.Probe {
	p := *o.Scenario.Probe
	p.Probers = probers
	p.Transport = cmp.Or(o.Transport, p.Transport)
	each := o.eachRate()
	p.Fresh, p.Fixed, p.FixedPorts = each.fresh*probers, each.fixed*probers, each.ports*probers
	p.Control = directRate * probers
	if len(o.Names) > 0 {
		p.Name = o.Names[0]
	}
	if o.Application != "" {
		p.Application = &scenarios.ApplicationProbe{
			Transport: scenarios.OverHTTP, Fresh: applicationRate * probers, Fixed: applicationRate * probers, FixedPorts: 2 * probers, Control: probers,
		}
	}
	return p
}

// limit is how long an observation may take that puts that many queries on record each second, or
// why it may not take as long as it should.
func (o Options) limit(rate int) (time.Duration, error) {
	longest := min(MaxFor, o.most(rate))
	switch {
	case o.For == 0:
		return longest, nil
	case o.For > longest:
		return 0, fmt.Errorf("%v with %d queries/s are more than %s, and to judge more takes more than 1 GiB: give a --for of up to %v, lower --rate or --probers, or raise --max-queries", o.For, rate, history.Count(o.MaxQueries, "query"), longest)
	}
	return o.For, nil
}

// most is how long that many queries each second may come on record.
func (o Options) most(rate int) time.Duration { return time.Duration(o.MaxQueries/rate) * time.Second }

// recorded is how many queries of one prober come on record each second.
func (o Options) recorded(direct int) int {
	rate := o.serviceRate() + echoRate + directRate*min(direct, maxDirect)
	if o.Application != "" {
		rate += 2 * applicationRate
	}
	return rate
}

func (o Options) application() (netip.AddrPort, string, error) {
	if o.Application == "" {
		return netip.AddrPort{}, "", nil
	}
	address, path, _ := strings.Cut(o.Application, "/")
	server, err := netip.ParseAddrPort(address)
	return server, "/" + path, err
}

// serviceRate is how many queries one prober sends to the DNS service each second.
func (o Options) serviceRate() int { return o.Rate * len(o.Transport.Each()) }

// rates are those of one prober, over each transport.
type rates struct{ fresh, fixed, ports int }

// eachRate divides the rate: seven of ten queries have a port of their own, like those of a stub
// resolver; the others share two ports, like those of a cache on the node.
func (o Options) eachRate() rates {
	fixed := o.Rate * 3 / 10
	return rates{fresh: o.Rate - fixed, fixed: fixed, ports: 2}
}
