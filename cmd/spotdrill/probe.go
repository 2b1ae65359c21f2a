package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/prober/probereport"
	"github.com/spotdrill/spotdrill/reports"
)

// probeOptions are the flags of spotdrill probe.
type probeOptions struct {
	servers, names, types []string
	mode, path            string
	rate, ports, bufsize  int
	duration, timeout     time.Duration
	json, noCheck         bool
	out                   string

	limits probereport.Limits
}

func newProbeCommand() *cobra.Command {
	var o probeOptions
	cmd := &cobra.Command{
		Use:   "probe --server ADDRESS[:PORT] [--name NAME | --mode http --path PATH] --for DURATION",
		Short: "Query DNS servers or applications at a fixed rate and report when queries were lost",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := o.plan(cmd.Flags().Changed("ports"))
			if err != nil {
				return exitError{exitUsage, err}
			}
			return probe(cmd, o, plan)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.servers, "server", nil, "`address` of the DNS server, with its port if that is not 53, or of the application, with its port; repeatable")
	flags.StringVar(&o.path, "path", "/", "what is requested over HTTP")
	flags.StringArrayVar(&o.names, "name", nil, "domain `name` to query; it must exist; repeatable, names are queried in turn")
	flags.StringArrayVar(&o.types, "type", []string{"A"}, "RR `type` to query; repeatable, types are queried in turn")
	flags.IntVar(&o.bufsize, "bufsize", 0, "EDNS0 buffer size in `octets`: the largest answer accepted over UDP; 0 for no EDNS0")
	flags.IntVar(&o.rate, "rate", 1000, "queries per second, to each server")
	flags.DurationVar(&o.duration, "for", 0, fmt.Sprintf("how long to send queries, at most %v", prober.MaxFor))
	flags.StringVar(&o.mode, "mode", string(history.Fresh), "fresh (UDP, a new port for each query, like a stub resolver), fixed (UDP, a few ports, like a forwarder), tcp (a new connection for each query) or tcp-kept (a few connections); of an application: dial (opens a connection and closes it), http (a GET over a new connection each) or http-kept (a GET over a connection that was kept)")
	flags.IntVar(&o.ports, "ports", 8, "number of source ports in fixed mode, of connections in tcp-kept mode; most idle connections in http-kept mode")
	flags.DurationVar(&o.timeout, "timeout", prober.DefaultTimeout, "how long to wait for each answer")
	flags.BoolVar(&o.json, "json", false, "print the summary as JSON")
	flags.StringVar(&o.out, "out", "", "write every query to `FILE`: as JSON lines (.jsonl), as CSV (.csv), or else as spotdrill's binary query record")
	optional(flags, &o.limits.MaxWindow, "max-window", "exit with code 1 if a window of lost queries is longer than this `duration`", time.ParseDuration)
	optional(flags, &o.limits.MaxLost, "max-lost", "exit with code 1 if more than this `number` of queries are lost", strconv.Atoi)
	flags.BoolVar(&o.noCheck, "no-check", false, "skip the check at the start that the server answers")
	cmd.AddCommand(newProbeServeCommand(), newProbeConvertCommand())
	return cmd
}

func newProbeServeCommand() *cobra.Command {
	var server guarded
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve probes over HTTP, as the prober's pod does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, token, err := server.listen(cmd.Context())
			if err != nil {
				return err
			}
			printf(cmd.ErrOrStderr(), "serving probes on %s\n", listener.Addr())
			return prober.Serve(cmd.Context(), listener, token)
		},
	}
	server.flags(cmd.Flags())
	return cmd
}

// probe runs the plan and reports.
func probe(cmd *cobra.Command, o probeOptions, plan prober.Plan) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if !o.noCheck {
		if err := checkAnswers(ctx, plan); err != nil {
			return err
		}
	}
	clock := history.NewClock()
	out, err := probereport.CreateQueryFile(o.out, clock, plan)
	if err != nil {
		return usage("--out: %w", err)
	}
	progress := probereport.NewProgress(plan, clock)
	stopShowing := progress.Show(stderr, reports.Rewriting(stderr))
	summary, err := prober.Run(ctx, plan, clock, func(q history.Query) {
		out.Write(q)
		progress.Add(q)
	})
	stopShowing()
	if err := errors.Join(err, out.Close(summary, err)); err != nil {
		return err
	}
	report := probereport.Report{Plan: plan, Start: clock.Anchor(), Summary: summary, Streams: progress.Finish(), Interrupted: ctx.Err() != nil}
	return errors.Join(show(cmd, o.json, report, report.WriteText), judgedProbe(report, o.limits))
}

// judgedProbe is the error, and so the exit code, that a probe's report calls for.
func judgedProbe(r probereport.Report, limits probereport.Limits) error {
	if err := r.Exceeded(limits); err != nil {
		return exitError{exitFailed, err}
	}
	if err := r.Inconclusive(limits); err != nil {
		return exitError{exitUnknown, err}
	}
	return nil
}

func newProbeConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "convert RECORD FILE",
		Short: "Convert a query record to JSON lines or CSV",
		Args:  cobra.ExactArgs(2),
		RunE:  func(cmd *cobra.Command, args []string) error { return convert(cmd.Context(), args[0], args[1]) },
	}
}

func convert(ctx context.Context, from, to string) error {
	if !probereport.HasRowFormat(to) {
		return usage("%s: the file's name must end in .jsonl or .csv", to)
	}
	in, err := os.Open(from)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer in.Close()
	record, err := history.NewQueryReader(in)
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("%s: %w", from, err)}
	}
	out, err := probereport.CreateRowFile(to)
	if err != nil {
		return exitError{exitUsage, err}
	}
	for {
		q, err := record.Next()
		if ctx.Err() != nil { // a part would look like the whole
			return orInterrupted(ctx, errors.Join(out.Close(prober.Summary{}, nil), os.Remove(to)))
		}
		if err == nil {
			out.Write(q)
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = exitError{exitFailed, fmt.Errorf("%s: %w", from, err)}
		}
		return errors.Join(err, out.Close(prober.Summary{}, nil))
	}
}

// probeTarget is the target in records if there is only one server; several servers
// are named by their addresses.
const probeTarget = "server"

// plan turns the flags into a plan.
func (o probeOptions) plan(portsGiven bool) (prober.Plan, error) {
	plan := prober.Plan{Timeout: o.timeout, For: o.duration}
	if o.timeout <= 0 {
		return plan, fmt.Errorf("--timeout is %v: want %v to %v", o.timeout, prober.MinTimeout, prober.MaxTimeout)
	}
	if o.bufsize < 0 || o.bufsize > prober.MaxBufferSize {
		return plan, fmt.Errorf("--bufsize is %d: want %d to %s", o.bufsize, prober.MinBufferSize, history.Count(prober.MaxBufferSize, "octet"))
	}
	mode := history.Mode(o.mode)
	var questions []prober.Question
	if !mode.OfApplications() {
		var err error
		if questions, err = o.questions(); err != nil {
			return plan, err
		}
	}
	if len(o.servers) == 0 {
		o.servers = []string{""}
	}
	for _, text := range o.servers {
		server, err := parseServer(text, mode)
		if err != nil {
			return plan, err
		}
		s := prober.QueryStream{
			Target: probeTarget, Server: server, Mode: mode, Rate: o.rate, Questions: questions, BufferSize: uint16(o.bufsize),
		}
		if mode == history.HTTP || mode == history.HTTPKept {
			s.Path = o.path
		}
		if len(o.servers) > 1 {
			s.Target = server.String()
		}
		if mode == history.Fixed || mode == history.Kept || mode == history.HTTPKept || portsGiven {
			s.Ports = o.ports
		}
		plan.Streams = append(plan.Streams, s)
	}
	return plan, plan.Validate()
}

// questions are every type of every name.
func (o probeOptions) questions() ([]prober.Question, error) {
	if len(o.names) == 0 {
		return nil, errors.New("--name is missing: give a name that the server knows, such as kubernetes.default.svc.cluster.local")
	}
	var all []prober.Question
	for _, name := range o.names {
		for _, text := range o.types {
			rrtype, ok := dns.StringToType[strings.ToUpper(text)]
			if !ok {
				return nil, fmt.Errorf("--type is %q: want an RR type such as A, AAAA or SRV", text)
			}
			all = append(all, prober.Question{Name: dns.Fqdn(name), Type: rrtype})
		}
	}
	return all, nil
}

func parseServer(s string, mode history.Mode) (netip.AddrPort, error) {
	if mode.OfApplications() {
		server, err := netip.ParseAddrPort(s)
		if err != nil {
			return server, fmt.Errorf("--server is %q: want the application's address and port, such as 10.96.12.7:80 or [fd00::a]:80", s)
		}
		return server, nil
	}
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

// checkAnswers sends each question a few times first, so that a wrong address or name
// is an error at once and not an outage that lasts for the whole run.
func checkAnswers(ctx context.Context, plan prober.Plan) error {
	check := prober.Plan{Timeout: plan.Timeout, For: 1500 * time.Millisecond}
	for _, s := range plan.Streams {
		s.Rate, s.Ports = 2, 0
		if s.Mode.OfApplications() {
			if s.Mode == history.HTTPKept {
				s.Mode = history.HTTP
			}
			s.Target = fmt.Sprint(len(check.Streams))
			check.Streams = append(check.Streams, s)
			continue
		}
		if s.Mode = history.Fresh; plan.Streams[0].Mode == history.Connect || plan.Streams[0].Mode == history.Kept {
			s.Mode = history.Connect
		}
		for _, q := range s.Questions {
			s.Target, s.Questions = fmt.Sprint(len(check.Streams)), []prober.Question{q}
			check.Streams = append(check.Streams, s)
		}
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answered := map[string]bool{}
	summary, err := prober.Run(asking, check, history.NewClock(), func(q history.Query) {
		if q.Target == history.Echo || q.Outcome != history.Answered {
			return
		}
		if answered[q.Target] = true; len(answered) == len(check.Streams) {
			stop()
		}
	})
	switch {
	case err != nil:
		return err
	case len(answered) == len(check.Streams):
		return nil
	case ctx.Err() != nil:
		return exitError{exitUnknown, errors.New("interrupted before the server answered")}
	}
	var errs []error
	for i, s := range check.Streams {
		if !answered[s.Target] {
			errs = append(errs, unanswered(s, summary.Streams[i]))
		}
	}
	return exitError{exitFailed, errors.Join(errs...)}
}

// unanswered reports what was tried, what happened and what to do.
func unanswered(s prober.QueryStream, seen prober.QueryStreamSummary) error {
	switch s.Mode {
	case history.Dial:
		return fmt.Errorf("opened connections to %s, %s: %s. %s (--no-check skips this check)",
			s.Server, history.Count(seen.Asked, "time"), probereport.Outcomes(seen.Outcomes), advice(seen.Outcomes))
	case history.HTTP:
		return fmt.Errorf("requested http://%s%s, %s: %s. %s; try: curl -v http://%s%s (--no-check skips this check)",
			s.Server, s.Path, history.Count(seen.Asked, "time"), probereport.Outcomes(seen.Outcomes), advice(seen.Outcomes), s.Server, s.Path)
	}
	name, rrtype, over := s.Questions[0].Name, dns.Type(s.Questions[0].Type), ""
	if s.Mode == history.Connect {
		over = "+tcp "
	}
	return fmt.Errorf("queried %s for %s %s, %s: %s. %s; try: dig %s@%s -p %d %s %s (--no-check skips this check)",
		s.Server, name, rrtype, history.Count(seen.Asked, "time"), probereport.Outcomes(seen.Outcomes), advice(seen.Outcomes),
		over, s.Server.Addr(), s.Server.Port(), name, rrtype)
}

// advice is what an outcome at the very start usually means.
func advice(seen map[history.Outcome]int) string {
	switch {
	case seen[history.NXDomain]+seen[history.Empty] > 0:
		return "The server has no such record: give a --name and --type that exist"
	case seen[history.Refused]+seen[history.ServFail]+seen[history.OtherCode] > 0:
		return "The server is there but does not serve this name or path: check --name or --path, and the server's configuration"
	case seen[history.Truncated] > 0:
		return "The answer is too long for UDP: give a --name with fewer records, a --bufsize, or --mode tcp"
	case seen[history.ICMP] > 0:
		return "Nothing listens there, or the network has no route to it: check --server and its port"
	case seen[history.Unsent] > 0:
		return "This machine could not send in time: it has too much load to measure anything"
	default:
		return "No answer came: check --server, its port, and the firewalls in between"
	}
}
