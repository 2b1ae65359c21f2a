package observe

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// loadTime is for how long CoreDNS's own rate is measured.
	loadTime = 3 * time.Second
	// harmlessRate is what the probers may add to each CoreDNS pod whatever its own rate is, in
	// queries/s: a pod with the default limit of 170 MiB serves some hundred times as many.
	harmlessRate = 200
)

// Load is what an observation adds to CoreDNS.
type Load struct {
	Adds    float64 // queries/s of all probers, to the service and to the pods directly
	DNSPods int
	// Own is CoreDNS's own rate before, in queries/s of all pods; Known is false if its metrics
	// could not be read, and Why shows why.
	Own   float64
	Known bool
	Why   string
}

// Share is what is added as a share of the own rate.
func (l Load) Share() float64 { return l.Adds / max(l.Own, 1) }

// TooMuch is why the load is more than a share allows, and a rate that is not, or "". The rate is that
// of the probers now, in queries/s.
func (l Load) TooMuch(most float64, rate int) string {
	each := l.Adds / float64(max(l.DNSPods, 1))
	fix := fmt.Sprintf("lower --rate to %d (%d queries/s for each CoreDNS pod are always allowed), or raise --max-share (%v)",
		max(1, int(float64(rate)*harmlessRate/max(each, 1))), harmlessRate, most)
	switch {
	case each <= harmlessRate:
		return ""
	case !l.Known:
		return fmt.Sprintf("%.0f queries/s for each CoreDNS pod, and its own rate is not known (%s): %s", each, l.Why, fix)
	case l.Share() > most:
		return fmt.Sprintf("%.0f queries/s for each CoreDNS pod; all pods together have %.0f/s of their own: %s", each, l.Own, fix)
	}
	return ""
}

// String is the load for the plan.
func (l Load) String() string {
	adds := fmt.Sprintf("adds %.0f queries/s to %s", l.Adds, history.Count(l.DNSPods, "CoreDNS pod"))
	if !l.Known {
		return fmt.Sprintf("%s; their own rate is not known: %s", adds, l.Why)
	}
	if l.Own < 1 {
		return adds + ", which have hardly any queries of their own"
	}
	return fmt.Sprintf("%s, which have %.0f queries/s of their own: %.0f %% more", adds, l.Own, 100*l.Share())
}

// load measures CoreDNS's own rate by its metrics, which a prober reads.
func (p *placed) load(ctx context.Context, pod string, dns []netip.AddrPort, adds float64) Load {
	l := Load{Adds: adds, DNSPods: len(dns)}
	total := func() (sum uint64, err error) {
		for _, one := range dns {
			text, err := p.get(ctx, p.namespace, pod, proberPort, "load/"+one.Addr().String(), p.token)
			if err != nil {
				return 0, err
			}
			n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the number of requests of CoreDNS: %w", err)
			}
			sum += n
		}
		return sum, nil
	}
	start := time.Now()
	before, err := total()
	if err == nil {
		select {
		case <-time.After(loadTime):
		case <-ctx.Done():
		}
		var after uint64
		if after, err = total(); err == nil && after >= before {
			l.Own, l.Known = float64(after-before)/time.Since(start).Seconds(), true
			return l
		}
	}
	if l.Why = "a pod of CoreDNS was restarted meanwhile"; err != nil {
		l.Why = err.Error()
	}
	return l
}
