package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// probeTarget names the one stream of the command in its records.
const probeTarget = "server"

// probeOptions are the flags of spotdrill probe.
type probeOptions struct {
	server, name, rrtype, mode string
	rate, ports                int
	duration, timeout          time.Duration
	json, noCheck              bool
	out                        string

	maxWindow, maxLost limit
}

// limit is a flag that tells "not given" from every value it can have.
type limit struct {
	given bool
	value int64
}

func newProbeCommand() *cobra.Command {
	var o probeOptions
	var maxWindow time.Duration
	var maxLost int
	cmd := &cobra.Command{
		Use:   "probe --server ADDRESS[:PORT] --name NAME --for DURATION",
		Short: "Ask a DNS server at a fixed rate and tell when it lost queries",
		Long: `Ask a DNS server at a fixed rate, whether or not it answers, and tell when it
lost queries: how many, with what outcome, in which windows of time.

Exit code: 0 when done, 1 when --max-window or --max-lost is passed or the
server does not answer at the start, 2 when interrupted or when these limits
cannot be judged because this machine did not keep the rate, 64 for wrong usage.`,
		Example: `  spotdrill probe --server 10.96.0.10 --name kubernetes.default.svc.cluster.local --for 60s
  spotdrill probe --server 127.0.0.1:1053 --name example.org --rate 500 --mode fixed --for 10m --max-window 100ms`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.maxWindow = limit{cmd.Flags().Changed("max-window"), int64(maxWindow)}
			o.maxLost = limit{cmd.Flags().Changed("max-lost"), int64(maxLost)}
			plan, err := o.plan(cmd.Flags().Changed("ports"))
			if err != nil {
				return exitError{exitUsage, err}
			}
			return probe(cmd.Context(), o, plan, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.server, "server", "", "the DNS server's `address`, with a port other than 53 if need be")
	flags.StringVar(&o.name, "name", "", "the domain `name` to ask for; it must exist")
	flags.StringVar(&o.rrtype, "type", "A", "the RR `type` to ask for")
	flags.IntVar(&o.rate, "rate", 1000, "queries per second")
	flags.DurationVar(&o.duration, "for", 0, fmt.Sprintf("how long to ask, at most %v", prober.MaxFor))
	flags.StringVar(&o.mode, "mode", string(history.Fresh), "source ports: fresh (one for each query, as a stub resolver) or fixed (a few, as a forwarder)")
	flags.IntVar(&o.ports, "ports", 8, "how many source ports in fixed mode")
	flags.DurationVar(&o.timeout, "timeout", prober.DefaultTimeout, "how long to wait for each answer")
	flags.BoolVar(&o.json, "json", false, "print the summary as JSON")
	flags.StringVar(&o.out, "out", "", "write every query to `FILE`: JSON lines as .jsonl, CSV as .csv, else as spotdrill's binary record")
	flags.DurationVar(&maxWindow, "max-window", 0, "exit 1 if a window of lost queries is longer")
	flags.IntVar(&maxLost, "max-lost", 0, "exit 1 if more queries are lost")
	flags.BoolVar(&o.noCheck, "no-check", false, "do not ask first whether the server answers at all")
	cmd.AddCommand(newProbeServeCommand())
	return cmd
}

func newProbeServeCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Probe on request over HTTP, as the prober's pod does",
		Long: `Probe on request over HTTP: POST /probe with a plan as JSON streams its record
as JSON lines, POST /stop ends it early, GET /healthz says that this runs. There
is no authentication: whoever reaches the port can have any server probed.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return exitError{exitUsage, fmt.Errorf("--listen %s: %w", listen, err)}
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "serving probes on %s\n", listener.Addr())
			return prober.Serve(cmd.Context(), listener)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":8080", "`address` to listen on")
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exitError{exitUsage, fmt.Errorf("%s takes no arguments, got %q: see %s --help", cmd.CommandPath(), args, cmd.CommandPath())}
}

// plan turns the flags into a plan, or says what is wrong with them.
func (o probeOptions) plan(portsGiven bool) (prober.Plan, error) {
	server, err := parseServer(o.server)
	if err != nil {
		return prober.Plan{}, err
	}
	if o.name == "" {
		return prober.Plan{}, errors.New("--name is missing: give a name that the server knows, such as kubernetes.default.svc.cluster.local")
	}
	rrtype, ok := dns.StringToType[strings.ToUpper(o.rrtype)]
	if !ok {
		return prober.Plan{}, fmt.Errorf("--type is %q: want an RR type such as A, AAAA or SRV", o.rrtype)
	}
	if o.timeout <= 0 {
		return prober.Plan{}, fmt.Errorf("--timeout is %v: want %v to %v", o.timeout, prober.MinTimeout, prober.MaxTimeout)
	}
	s := prober.Stream{
		Target: probeTarget, Server: server, Mode: history.Mode(o.mode), Rate: o.rate, Name: dns.Fqdn(o.name), Type: rrtype,
	}
	if s.Mode == history.Fixed || portsGiven {
		s.Ports = o.ports
	}
	plan := prober.Plan{Streams: []prober.Stream{s}, Timeout: o.timeout, For: o.duration}
	return plan, plan.Validate()
}

func parseServer(s string) (netip.AddrPort, error) {
	if s == "" {
		return netip.AddrPort{}, errors.New("--server is missing: give the DNS server's address, such as 10.96.0.10 " +
			"(a cluster's: kubectl -n kube-system get service kube-dns)")
	}
	if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(addr, 53), nil
	}
	server, err := netip.ParseAddrPort(s)
	if err != nil {
		return server, fmt.Errorf("--server is %q: want an IP address, with or without a port, such as 10.96.0.10 or [fd00::a]:53", s)
	}
	return server, nil
}

// probe runs the plan and reports.
func probe(ctx context.Context, o probeOptions, plan prober.Plan, stdout, stderr io.Writer) error {
	if !o.noCheck {
		if err := checkAnswers(ctx, plan); err != nil {
			return err
		}
	}
	clock := history.NewClock()
	out, err := createQueryFile(o.out, clock, plan)
	if err != nil {
		return err
	}
	live := newProbeProgress(plan, clock, stderr)
	stopShowing := live.show()
	summary, err := prober.Run(ctx, plan, clock, func(q history.Query) {
		out.write(q)
		live.add(q)
	})
	stopShowing()
	if err := errors.Join(err, out.end(summary, err)); err != nil {
		return err
	}
	live.watch.Finish()
	report := probeReport{Plan: plan, Start: clock.Anchor(), Summary: summary, Windows: live.watch.Windows(), Doubts: live.watch.Doubts(), Interrupted: ctx.Err() != nil}
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = report.print(stdout)
	}
	return errors.Join(err, report.judge(o))
}

// checkAnswers asks a few times first, so that a wrong address or name is told
// at once and not as an outage that lasted for the whole run.
func checkAnswers(ctx context.Context, plan prober.Plan) error {
	s := plan.Streams[0]
	s.Rate, s.Mode, s.Ports = 2, history.Fresh, 0
	plan.Streams, plan.For = []prober.Stream{s}, 1500*time.Millisecond
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answered := false
	summary, err := prober.Run(asking, plan, history.NewClock(), func(q history.Query) {
		if q.Target != history.Echo && q.Outcome == history.Answered {
			answered = true
			stop()
		}
	})
	if err != nil || answered {
		return err
	}
	if ctx.Err() != nil {
		return exitError{exitUnknown, errors.New("interrupted before the server had answered")}
	}
	host, port := s.Server.Addr(), s.Server.Port()
	return exitError{exitFailed, fmt.Errorf("asked %s for %s %s, %d times: %s. %s; try: dig @%s -p %d %s %s (--no-check probes all the same)",
		s.Server, s.Name, dns.Type(s.Type), summary.Asked, outcomes(summary.Outcomes), advice(summary.Outcomes),
		host, port, s.Name, dns.Type(s.Type))}
}

// advice tells what an outcome at the very start usually means.
func advice(seen map[history.Outcome]int) string {
	switch {
	case seen[history.NXDomain]+seen[history.Empty] > 0:
		return "The server has no such record: give a --name and --type that exist"
	case seen[history.Refused]+seen[history.ServFail]+seen[history.OtherCode] > 0:
		return "The server is there but does not serve this name: check --name and the server's configuration"
	case seen[history.Truncated] > 0:
		return "The answer is too long for UDP: give a --name with fewer records"
	case seen[history.ICMP] > 0:
		return "Nothing listens there, or there is no way to it: check --server and its port"
	case seen[history.Unsent] > 0:
		return "This machine could not send in time: it is too busy to measure anything"
	default:
		return "No answer came: check --server, its port, and the firewalls on the way"
	}
}
