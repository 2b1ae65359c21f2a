package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/guard"
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
		Long: `Query a DNS server at a fixed rate, whether or not it answers, and report the
lost queries: how many, with what outcome, and in which windows of time. While
this machine stalls, the server cannot be judged. These intervals are listed
separately, and queries lost in them count towards no window.

With --mode dial, http or http-kept, the server is an application. A request is
lost if no connection can be opened, or if no whole answer with an HTTP status
below 400 comes in time. Nothing is tried twice.

Exit code 0: done; 1: --max-window or --max-lost is exceeded, or a server does not
answer at the start; 2: interrupted, or these limits cannot be evaluated because
this machine stalled or did not keep the rate; 64: wrong usage.`,
		Example: `  spotdrill probe --server 10.96.0.10 --name kubernetes.default.svc.cluster.local --for 60s
  spotdrill probe --server 127.0.0.1:1053 --name example.org --rate 500 --mode fixed --for 10m --max-window 100ms
  spotdrill probe --server 10.0.0.2 --server 10.0.0.3 --name a.example --name b.example --type A --type AAAA --for 60s --out queries.csv
  spotdrill probe --server 10.96.12.7:80 --mode http-kept --path /healthz --rate 200 --for 5m`,
		Args: cobra.NoArgs,
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
		Long: `Serve probes over HTTP. POST /probe with a plan as JSON starts a probe and streams
its query record (binary, see docs/query-record.md). POST /stop ends it early.
GET /healthz is the health check. With --token-file, only requests with that token
in the header ` + guard.Header + ` are served. Without it, there is no
authentication: whoever can reach the port can make it probe any server.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, token, err := server.listen(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "serving probes on %s\n", listener.Addr())
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
		Long: `Convert a query record, such as queries.bin in a drill's folder or a file that
--out wrote, to JSON lines or CSV, depending on whether FILE ends in .jsonl or
.csv. If the record is incomplete, the readable part is converted and the exit
code is 1.`,
		Example: `  spotdrill probe convert reports/out/latest/coredns-drained-lameduck-0s/attempt-1/queries.bin queries.csv`,
		Args:    cobra.ExactArgs(2),
		RunE:    func(_ *cobra.Command, args []string) error { return convert(args[0], args[1]) },
	}
}

func convert(from, to string) error {
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
