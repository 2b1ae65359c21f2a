package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// probeOptions are the flags of spotdrill probe.
type probeOptions struct {
	servers, names, types []string
	mode                  string
	rate, ports, bufsize  int
	duration, timeout     time.Duration
	json, noCheck         bool
	out                   string

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
		Short: "Ask DNS servers at a fixed rate and tell when they lost queries",
		Long: `Ask a DNS server at a fixed rate, whether or not it answers, and tell when it
lost queries: how many, with what outcome, in which windows of time. Where this
machine stalled nothing is known of the server: these intervals are told apart,
and what was lost in them is in no window.

Exit code: 0 when done, 1 when --max-window or --max-lost is passed or a server
does not answer at the start, 2 when interrupted or when these limits cannot be
judged because this machine stalled or did not keep the rate, 64 for wrong usage.`,
		Example: `  spotdrill probe --server 10.96.0.10 --name kubernetes.default.svc.cluster.local --for 60s
  spotdrill probe --server 127.0.0.1:1053 --name example.org --rate 500 --mode fixed --for 10m --max-window 100ms
  spotdrill probe --server 10.0.0.2 --server 10.0.0.3 --name a.example --name b.example --type A --type AAAA --for 60s --out queries.csv`,
		Args: cobra.NoArgs,
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
	flags.StringArrayVar(&o.servers, "server", nil, "a DNS server's `address`, with a port other than 53 if need be; several may be given")
	flags.StringArrayVar(&o.names, "name", nil, "a domain `name` to ask for, which must exist; several take turns")
	flags.StringArrayVar(&o.types, "type", []string{"A"}, "an RR `type` to ask for; several take turns")
	flags.IntVar(&o.bufsize, "bufsize", 0, "offer to take answers of so many `octets` over UDP (EDNS0)")
	flags.IntVar(&o.rate, "rate", 1000, "queries per second, to each server")
	flags.DurationVar(&o.duration, "for", 0, fmt.Sprintf("how long to ask, at most %v", prober.MaxFor))
	flags.StringVar(&o.mode, "mode", string(history.Fresh), "fresh (UDP, a port for each query, as a stub resolver), fixed (UDP, a few ports, as a forwarder), tcp (a connection for each query) or tcp-kept (a few connections)")
	flags.IntVar(&o.ports, "ports", 8, "how many source ports in fixed mode, or connections in tcp-kept mode")
	flags.DurationVar(&o.timeout, "timeout", prober.DefaultTimeout, "how long to wait for each answer")
	flags.BoolVar(&o.json, "json", false, "print the summary as JSON")
	flags.StringVar(&o.out, "out", "", "write every query to `FILE`: JSON lines as .jsonl, CSV as .csv, else as spotdrill's binary record")
	flags.DurationVar(&maxWindow, "max-window", 0, "exit 1 if a window of lost queries is longer")
	flags.IntVar(&maxLost, "max-lost", 0, "exit 1 if more queries are lost")
	flags.BoolVar(&o.noCheck, "no-check", false, "do not ask first whether the server answers at all")
	cmd.AddCommand(newProbeServeCommand(), newProbeConvertCommand())
	return cmd
}

func newProbeServeCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Probe on request over HTTP, as the prober's pod does",
		Long: `Probe on request over HTTP: POST /probe with a plan as JSON streams its query
record as it happens (binary, see docs/query-record.md), POST /stop ends it early,
GET /healthz says that this runs. There is no authentication: whoever reaches the
port can have any server probed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return usage("--listen %s: %w", listen, err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "serving probes on %s\n", listener.Addr())
			return prober.Serve(cmd.Context(), listener)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":8080", "`address` to listen on")
	return cmd
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
	report := probeReport{Plan: plan, Start: clock.Anchor(), Summary: summary, Streams: live.finish(), Interrupted: ctx.Err() != nil}
	if o.json {
		err = writeJSON(stdout, report)
	} else {
		err = report.print(stdout)
	}
	return errors.Join(err, report.judge(o))
}
