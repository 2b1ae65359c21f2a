package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// workloadOptions describe how a pod that drills evict starts and ends.
type workloadOptions struct {
	http      string
	startsIn  time.Duration
	stopAfter time.Duration
	deaf      bool
	code      int
}

// newWorkloadCommand runs in the pods that drills evict: it waits for SIGTERM and
// ends as its flags require.
func newWorkloadCommand() *cobra.Command {
	var o workloadOptions
	cmd := &cobra.Command{
		Use:    "workload",
		Short:  "Wait for SIGTERM, as the pods that drills evict do",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.untilTerminated(cmd.Context()); err != nil {
				return err
			}
			if o.deaf {
				o.stopAfter = math.MaxInt64 // until SIGKILL
			}
			time.Sleep(o.stopAfter)
			if o.code != 0 {
				return exitError{o.code, fmt.Errorf("stopped with exit code %d, as --exit-code demands", o.code)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.http, "http", "", "serve HTTP at this `address`, until SIGTERM")
	cmd.Flags().DurationVar(&o.startsIn, "starts-in", 0, "time from the start until it serves")
	cmd.Flags().DurationVar(&o.stopAfter, "stop-after", 0, "time from SIGTERM to the end")
	cmd.Flags().BoolVar(&o.deaf, "deaf", false, "ignore SIGTERM")
	cmd.Flags().IntVar(&o.code, "exit-code", 0, "exit code after SIGTERM")
	return cmd
}

// untilTerminated serves, if it is to, and returns after SIGTERM. Then the listener is closed,
// and requests that are under way are answered, as servers of HTTP do.
func (o workloadOptions) untilTerminated(ctx context.Context) error {
	if o.http == "" {
		<-ctx.Done()
		return nil
	}
	select {
	case <-time.After(o.startsIn):
	case <-ctx.Done():
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.http)
	if err != nil {
		return usage("--http %s: %w", o.http, err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP at %s: %w", o.http, err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving HTTP: %w", err)
	}
	return nil
}
