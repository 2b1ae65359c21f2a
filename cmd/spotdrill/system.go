package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/kind"
)

func newUpCommand() *cobra.Command {
	opts := system.Options{Log: stderrLine}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create or reuse the cluster and LocalStack",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loader, err := checkedSystem(cmd, &opts)
			if err != nil {
				return err
			}
			if line := versionsOf(loader.Platform, opts); line != "" {
				printf(cmd.ErrOrStderr(), "%s\n", line)
			}
			start := time.Now()
			sys, err := system.Up(cmd.Context(), opts)
			if err != nil {
				return err
			}
			endpoint, err := sys.LocalStack(cmd.Context())
			if err != nil {
				return err
			}
			kubeconfig, err := system.Kubeconfig(opts.Cluster)
			if err != nil {
				return err
			}
			stderrLine("up after %.0f s", time.Since(start).Seconds())
			if err := shown(cmd.OutOrStdout(), text(fmt.Sprintf("export KUBECONFIG='%s'\nexport SPOTDRILL_LOCALSTACK='%s'\n", kubeconfig, endpoint))); err != nil {
				return fmt.Errorf("print the addresses: %w", err)
			}
			if opts.Spares > 0 {
				stderrLine("%s and %s wait for launches; Ctrl-C ends this, and leaves the cluster", history.Count(opts.Spares, "spare worker"), history.Count(opts.Virtual, "virtual node"))
				<-cmd.Context().Done()
			}
			return sys.Release()
		},
	}
	systemFlags(cmd.Flags(), &opts)
	cmd.Flags().IntVar(&opts.Spares, "spare", 0, "`number` of spare workers, which become the nodes of launched instances")
	cmd.Flags().IntVar(&opts.Virtual, "virtual", 0, "`number` of virtual nodes, for instances that find no spare worker; requires --spare")
	return cmd
}

// maxSpares is how many spare workers a cluster may have: each takes some 150 MiB of memory,
// and two seconds more until the cluster is up.
const maxSpares = 10

// maxVirtual is how many virtual nodes there may be: each has a range of 256 pod addresses.
const maxVirtual = 100

// systemFlags show which system is brought up, and from what.
func systemFlags(flags *pflag.FlagSet, opts *system.Options) {
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	clusterFlag(flags, opts)
	flags.StringVar((*string)(&opts.ProxyMode), "proxy-mode", string(history.IPTables), "kube-proxy's `mode`: "+strings.Join(history.Words(history.ProxyModes()), ", "))
	platformFlag(flags, &opts.Platform.Name)
	versionFlags(flags, &opts.Versions, kind.Kubernetes, kind.CoreDNS)
	flags.StringVar(&opts.Source, "source", ".", "`folder` of a checkout, to build images if no registry answers")
	flags.StringVar(&opts.Binary, "binary", self, "static spotdrill `file` to run in the cluster")
	flags.Lookup("binary").DefValue = "this program"
}

// checkSystem reports errors that would otherwise show only after minutes, and completes the versions.
func checkSystem(opts *system.Options) error {
	var err error
	if opts.Versions, err = (kind.ImageOptions{Source: opts.Source}).Complete(opts.Versions); err != nil {
		return exitError{exitUsage, err}
	}
	if modes := history.ProxyModes(); !slices.Contains(modes, opts.ProxyMode) {
		return usage("--proxy-mode is %q%s", opts.ProxyMode, strict.Among(string(opts.ProxyMode), history.Words(modes)))
	}
	if opts.Spares < 0 || opts.Spares > maxSpares {
		return usage("--spare is %d; allowed: 0 to %d", opts.Spares, maxSpares)
	}
	if opts.Virtual < 0 || opts.Virtual > maxVirtual {
		return usage("--virtual is %d; allowed: 0 to %d", opts.Virtual, maxVirtual)
	}
	if opts.Virtual > 0 && opts.Spares == 0 {
		return usage("--virtual requires --spare: nothing looks for launches without it")
	}
	return nil
}

func clusterFlag(flags *pflag.FlagSet, opts *system.Options) {
	flags.StringVar(&opts.Cluster, "cluster", system.DefaultCluster, "`name` of the kind cluster")
}

func newDownCommand() *cobra.Command {
	opts := system.Options{Log: stderrLine}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster, its containers and its network",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := system.Down(cmd.Context(), opts)
			if err == nil {
				stderrLine("%s", removed(opts.Cluster, found))
			}
			return err
		},
	}
	clusterFlag(cmd.Flags(), &opts)
	return cmd
}

// removed is what became of a cluster.
func removed(cluster string, found bool) string {
	if !found {
		return "nothing to remove: there is no cluster " + cluster
	}
	return fmt.Sprintf("removed cluster %s, its containers and its network", cluster)
}

func newCleanCommand() *cobra.Command {
	opts := system.Options{Log: stderrLine}
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove the cluster, and the images and cached files that the next run would reuse",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kept, err := system.FindCache(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if dryRun {
				printf(cmd.OutOrStdout(), "cluster %s\n%s", opts.Cluster, kept)
				return nil
			}
			found, err := system.Down(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if err := kept.Remove(cmd.Context()); err != nil {
				return err
			}
			stderrLine("%s", removed(opts.Cluster, found))
			stderrLine("removed %s and %s", history.Count(len(kept.Images), "image"), history.Count(len(kept.Files), "cached file or folder"))
			return nil
		},
	}
	clusterFlag(cmd.Flags(), &opts)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be removed")
	return cmd
}

func newDoctorCommand() *cobra.Command {
	var opts system.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the prerequisites of drills on this machine and print fixes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := checkedSystem(cmd, &opts); err != nil {
				return err
			}
			found := system.Examine(cmd.Context(), opts)
			if err := show(cmd, asJSON, found, text(prerequisites(found))); err != nil {
				return err
			}
			return missingError(found)
		},
	}
	systemFlags(cmd.Flags(), &opts)
	handlerVersionFlags(cmd.Flags(), &opts)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func prerequisites(found []engine.Prerequisite) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%-9s %s: %s\n", f.State, f.What, f.Detail)
		if f.Fix != "" && f.State != engine.OK {
			fmt.Fprintf(&b, "%-9s   %s\n", "", f.Fix)
		}
	}
	return b.String()
}

// missingError names the missing prerequisites; nil if there are none.
func missingError(found []engine.Prerequisite) error {
	var missing []string
	for _, f := range found {
		if f.State == engine.Missing {
			missing = append(missing, f.What)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exitError{exitFailed, fmt.Errorf("no drill can run here; missing: %s", strings.Join(missing, ", "))}
}
