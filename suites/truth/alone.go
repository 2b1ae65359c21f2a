package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/prober/probereport"
)

// alone probes like spotdrill probe, with the same flags, in this program: it has no
// Kubernetes and no cloud in it, and so shows what the prober itself costs.
func alone(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("probe", flag.ContinueOnError)
	s := prober.QueryStream{Target: "server"}
	plan := prober.Plan{}
	set.Func("server", "address and port of the DNS server", func(text string) (err error) {
		s.Server, err = netip.ParseAddrPort(text)
		return err
	})
	set.Func("name", "domain name to query for A", func(text string) error {
		s.Questions = []prober.Question{{Name: dns.Fqdn(text), Type: dns.TypeA}}
		return nil
	})
	mode := set.String("mode", string(history.Fresh), "fresh or fixed")
	set.IntVar(&s.Rate, "rate", 1000, "queries/s")
	set.IntVar(&s.Ports, "ports", 0, "number of source ports in fixed mode")
	set.DurationVar(&plan.For, "for", time.Second, "how long to send queries")
	set.DurationVar(&plan.Timeout, "timeout", prober.DefaultTimeout, "how long to wait for each answer")
	_ = set.Bool("json", true, "always")
	_ = set.Bool("no-check", true, "always")
	if err := set.Parse(args); err != nil {
		return err
	}
	s.Mode = history.Mode(*mode)
	plan.Streams = []prober.QueryStream{s}
	clock := history.NewClock()
	progress := probereport.NewProgress(plan, clock)
	stopShowing := progress.Show(os.Stderr, nil)
	summary, err := prober.Run(ctx, plan, clock, progress.Add)
	stopShowing()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(probereport.Report{Plan: plan, Start: clock.Anchor(), Summary: summary, Streams: progress.Finish()})
}
