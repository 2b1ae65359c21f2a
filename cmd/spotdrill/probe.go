package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

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
		Args:  cobra.ExactArgs(2),
		RunE:  func(_ *cobra.Command, args []string) error { return convert(args[0], args[1]) },
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
