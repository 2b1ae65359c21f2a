package main

import (
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/guard"
)

// newConntrackCommand runs on the prober's node, in the network of its host.
func newConntrackCommand() *cobra.Command {
	var listen, client, tokenFile string
	var services []string
	cmd := &cobra.Command{
		Use:    "conntrack",
		Short:  "Record to which pods this node sends a client's queries and requests",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := netip.ParseAddr(client)
			if err != nil {
				return usage("--client is %q: want an IP address", client)
			}
			to := conntrack.Services{}
			for _, text := range services {
				name, address, named := strings.Cut(text, "=")
				if !named {
					name, address = "", text
				}
				service, err := netip.ParseAddrPort(address)
				if err != nil {
					return usage("--service is %q: want an IP address and port, such as 10.96.0.10:53, or application=10.96.12.7:80", text)
				}
				to[service] = name
			}
			if len(to) == 0 {
				return usage("--service is missing: give an IP address and port, such as 10.96.0.10:53")
			}
			token, err := guard.ReadToken(tokenFile)
			if err != nil {
				return usage("--token-file: %w", err)
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return usage("--listen %s: %w", listen, err)
			}
			return conntrack.Serve(cmd.Context(), listener, token, from, to)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":8080", "`address` for GET /flows and GET /healthz")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "`file` with a token that every request must carry; empty: none is required")
	cmd.Flags().StringVar(&client, "client", "", "the client's IP `address`")
	cmd.Flags().StringArrayVar(&services, "service", nil, "a service's `address:port`, or TARGET=address:port; repeatable")
	return cmd
}
