package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/proxy"
)

func newProxyCommand() *cobra.Command {
	var listen, records, upstream string
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Forward a handler's API calls to LocalStack and record each of them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := url.Parse(upstream)
			if err != nil || target.Scheme != "http" || target.Host == "" {
				return exitError{exitUsage, fmt.Errorf("--upstream %q is not an http:// URL", upstream)}
			}
			return serveProxy(cmd.Context(), proxy.New(target), listen, records)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":4566", "`address` of the API")
	cmd.Flags().StringVar(&records, "records", ":8080", "`address` of GET /records, POST and DELETE /faults, and GET /healthz")
	cmd.Flags().StringVar(&upstream, "upstream", "", "`URL` of LocalStack (required), such as http://172.18.0.9:4566")
	return cmd
}

// serveProxy runs both servers until ctx ends or one of them fails.
func serveProxy(ctx context.Context, proxy *proxy.Proxy, listen, records string) error {
	failed := make(chan error, 2)
	background := context.WithoutCancel(ctx)
	apiCtx, stopAPI := context.WithCancel(background)
	defer stopAPI()
	recordsCtx, stopRecords := context.WithCancel(background)
	defer stopRecords()
	apiServer := serve(apiCtx, listen, proxy, failed)
	recordsServer := serve(recordsCtx, records, proxy.Admin(), failed)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	grace, stop := context.WithTimeout(background, 5*time.Second)
	defer stop()
	// Open long polls end first and give back the messages that they still receive.
	// The streams of records end when all of that is recorded.
	stopAPI()
	err = errors.Join(err, apiServer.Shutdown(grace))
	stopRecords()
	return errors.Join(err, recordsServer.Shutdown(grace))
}

// serve starts a server whose requests end with ctx.
func serve(ctx context.Context, address string, handler http.Handler, failed chan<- error) *http.Server {
	server := &http.Server{
		Addr:              address,
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", address, err)
		}
	}()
	return server
}
