package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/system"
)

func newCleanCommand() *cobra.Command {
	opts := system.Options{Log: stderrLine}
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove the cluster, and the images and cached files that the next run would reuse",
		Long: `Clean does what spotdrill down does, and then removes the images that were built
on this machine and the files in spotdrill's cache folder. Reports stay. The next
run takes as long as the first one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kept, err := system.Keeps(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if dryRun {
				fmt.Fprintf(cmd.OutOrStdout(), "cluster %s\n%s", opts.Cluster, kept)
				return nil
			}
			if err := system.Down(cmd.Context(), opts); err != nil {
				return err
			}
			if err := kept.Remove(cmd.Context()); err != nil {
				return err
			}
			stderrLine("removed cluster %s, %d images, and %d files and folders", opts.Cluster, len(kept.Images), len(kept.Files))
			return nil
		},
	}
	clusterFlag(cmd.Flags(), &opts)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be removed")
	return cmd
}
