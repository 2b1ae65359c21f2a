package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/proxy"
)

// proxyFlags are those of spotdrill proxy.
type proxyFlags struct {
	listen, records, tokenFile, upstream string
	api                                  apiFlags
}

// apiFlags describe how the proxy stands before the API server.
type apiFlags struct{ listen, upstream, roots, cert, key string }

func newProxyCommand() *cobra.Command {
	var flags proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Forward a handler's calls to LocalStack and the Kubernetes API, and record each of them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := url.Parse(flags.upstream)
			if err != nil || target.Scheme != "http" || target.Host == "" {
				return exitError{exitUsage, fmt.Errorf("--upstream %q is not an http:// URL", flags.upstream)}
			}
			return serveProxy(cmd.Context(), proxy.New(target), flags)
		},
	}
	cmd.Flags().StringVar(&flags.listen, "listen", ":4566", "`address` of the AWS API")
	cmd.Flags().StringVar(&flags.records, "records", ":8080", "`address` of GET /records, POST and DELETE /faults, PUT and DELETE /permitted, and GET /healthz")
	cmd.Flags().StringVar(&flags.tokenFile, "token-file", "", "`file` with a token that every request to --records must carry; empty: none is required")
	cmd.Flags().StringVar(&flags.upstream, "upstream", "", "`URL` of LocalStack (required), such as http://172.18.0.9:4566")
	cmd.Flags().StringVar(&flags.api.listen, "api-listen", ":6443", "`address` of the Kubernetes API")
	cmd.Flags().StringVar(&flags.api.upstream, "api-upstream", "", "`URL` of the API server, such as https://10.96.0.1; without it, the proxy is not one for an API server")
	cmd.Flags().StringVar(&flags.api.roots, "api-roots", "", "PEM `file` with the authority of the API server's certificate")
	cmd.Flags().StringVar(&flags.api.cert, "api-cert", "", "PEM `file` with the certificate that clients of the Kubernetes API get")
	cmd.Flags().StringVar(&flags.api.key, "api-key", "", "PEM `file` with its key")
	cmd.MarkFlagsRequiredTogether("api-upstream", "api-roots", "api-cert", "api-key")
	return cmd
}

// serveProxy runs the servers until ctx ends or one of them fails.
func serveProxy(ctx context.Context, p *proxy.Proxy, flags proxyFlags) error {
	token, err := guard.ReadToken(flags.tokenFile)
	if err != nil {
		return usage("--token-file: %w", err)
	}
	failed := make(chan error, 3)
	background := context.WithoutCancel(ctx)
	callsCtx, stopCalls := context.WithCancel(background)
	defer stopCalls()
	recordsCtx, stopRecords := context.WithCancel(background)
	defer stopRecords()
	kubernetes, err := kubernetesServer(callsCtx, p, flags.api)
	if err != nil {
		return err
	}
	if kubernetes != nil {
		go serve(func() error { return kubernetes.ListenAndServeTLS("", "") }, kubernetes.Addr, failed)
	}
	aws := newServer(callsCtx, flags.listen, p)
	go serve(aws.ListenAndServe, aws.Addr, failed)
	records := newServer(recordsCtx, flags.records, guard.With(token, p.Admin()))
	records.ReadTimeout = 30 * time.Second
	go serve(records.ListenAndServe, records.Addr, failed)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	grace, stop := context.WithTimeout(background, 5*time.Second)
	defer stop()
	// Open long polls and watches end first; the polls give back the messages that they
	// still receive. The streams of records end when all of that is recorded.
	stopCalls()
	err = errors.Join(err, aws.Shutdown(grace))
	if kubernetes != nil {
		err = errors.Join(err, kubernetes.Shutdown(grace))
	}
	stopRecords()
	return errors.Join(err, records.Shutdown(grace))
}

// kubernetesServer is the server before the API server; nil if there is to be none.
func kubernetesServer(ctx context.Context, p *proxy.Proxy, flags apiFlags) (*http.Server, error) {
	if flags.upstream == "" {
		return nil, nil //nolint:nilnil // no server is no error
	}
	target, err := url.Parse(flags.upstream)
	if err != nil || target.Scheme != "https" || target.Host == "" {
		return nil, exitError{exitUsage, fmt.Errorf("--api-upstream %q is not an https:// URL", flags.upstream)}
	}
	pem, err := os.ReadFile(flags.roots)
	if err != nil {
		return nil, fmt.Errorf("read --api-roots: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--api-roots %s has no certificate", flags.roots)
	}
	cert, err := tls.LoadX509KeyPair(flags.cert, flags.key)
	if err != nil {
		return nil, fmt.Errorf("read --api-cert and --api-key: %w", err)
	}
	api := p.API(target, roots)
	server := newServer(ctx, flags.listen, api)
	server.ConnContext = api.ConnContext
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	return server, nil
}

// newServer is a server whose requests end with ctx.
func newServer(ctx context.Context, address string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:              address,
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
}

// serve runs a server until it is shut down or fails.
func serve(listen func() error, address string, failed chan<- error) {
	if err := listen(); !errors.Is(err, http.ErrServerClosed) {
		failed <- fmt.Errorf("serve %s: %w", address, err)
	}
}
