package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/kind"
)

// versionFlags choose the versions of programs.
func versionFlags(flags *pflag.FlagSet, into *kind.Versions, programs ...kind.Program) {
	use := map[kind.Program]string{
		kind.Kubernetes: "`version` of Kubernetes, such as v1.34 or v1.34.4; the default is the newest that is known",
		kind.CoreDNS:    "`version` of CoreDNS; the default is the newest that is known, whatever the version of Kubernetes",
		kind.Karpenter:  "`version` of the handler karpenter; the default is that of its description",
		kind.NTH:        "`version` of the handlers nth and nth-imds; the default is that of their descriptions",
	}
	for _, p := range programs {
		flags.Func(string(p), use[p], func(version string) error { into.Set(p, version); return nil })
	}
}

// handlerVersionFlags choose the versions of handlers.
func handlerVersionFlags(flags *pflag.FlagSet, opts *system.Options) {
	versionFlags(flags, &opts.Versions, kind.Karpenter, kind.NTH)
}

// handlerFlags choose the handler of a command that plays with one, and its version.
func handlerFlags(cmd *cobra.Command, under *string, opts *system.Options) {
	cmd.Flags().StringVar(under, "handler", "builtin", "the `handler`: "+strings.Join(handler.Names(), ", ")+", or the path of a description")
	completeFlag(cmd, "handler", handler.Names()...)
	handlerVersionFlags(cmd.Flags(), opts)
}

// handlerAt is the handler of that name or description, at the versions that were chosen.
func handlerAt(name string, versions kind.Versions) (handler.Description, error) {
	under, err := handler.Load(name)
	if err == nil {
		under, _, err = handler.AtVersions(versions, under, nil)
	}
	return under, err
}

// completeVersions completes the flags of versions of a command and its subcommands.
func completeVersions(cmd *cobra.Command) {
	for _, p := range kind.Chosen() {
		if cmd.Flags().Lookup(string(p)) == nil {
			continue
		}
		versions, err := kind.ImageOptions{Source: "."}.Known(p)
		if err != nil {
			continue // the command reports it
		}
		completeFlag(cmd, string(p), versions...)
	}
	for _, sub := range cmd.Commands() {
		completeVersions(sub)
	}
}

// likeVersions sets the versions that an earlier run was started with, as kind.Versions.Flags has them.
func likeVersions(was string, into *kind.Versions, changed func(flag string) bool) {
	words := strings.Fields(was)
	for i := 0; i+1 < len(words); i += 2 {
		name := strings.TrimPrefix(words[i], "--")
		for _, p := range kind.Chosen() {
			if string(p) == name && !changed(name) {
				into.Set(p, words[i+1])
			}
		}
	}
}
