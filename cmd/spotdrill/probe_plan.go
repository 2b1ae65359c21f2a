package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/prober/probereport"
)

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
		return plan, fmt.Errorf("--bufsize is %d: want %d to %d octets", o.bufsize, prober.MinBufferSize, prober.MaxBufferSize)
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
		return fmt.Errorf("opened connections to %s, %d times: %s. %s (--no-check skips this check)",
			s.Server, seen.Asked, probereport.Outcomes(seen.Outcomes), advice(seen.Outcomes))
	case history.HTTP:
		return fmt.Errorf("requested http://%s%s, %d times: %s. %s; try: curl -v http://%s%s (--no-check skips this check)",
			s.Server, s.Path, seen.Asked, probereport.Outcomes(seen.Outcomes), advice(seen.Outcomes), s.Server, s.Path)
	}
	name, rrtype, over := s.Questions[0].Name, dns.Type(s.Questions[0].Type), ""
	if s.Mode == history.Connect {
		over = "+tcp "
	}
	return fmt.Errorf("queried %s for %s %s, %d times: %s. %s; try: dig %s@%s -p %d %s %s (--no-check skips this check)",
		s.Server, name, rrtype, seen.Asked, probereport.Outcomes(seen.Outcomes), advice(seen.Outcomes),
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
