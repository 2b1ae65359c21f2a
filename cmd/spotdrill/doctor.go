package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/system"
)

func newDoctorCommand() *cobra.Command {
	var opts system.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the prerequisites of drills on this machine and print fixes",
		Long: `Doctor checks the container engine, the host's settings, its cores, memory and
disk, the images and the cluster. It changes none of them. "automatic" means that
the next run provides it without your help.

Exit code 0: drills can run; 1: something is missing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := system.Examine(cmd.Context(), opts)
			print := printPrerequisites
			if asJSON {
				print = func(w io.Writer, found []engine.Prerequisite) error { return writeJSON(w, found) }
			}
			if err := print(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			return missingError(found)
		},
	}
	systemFlags(cmd.Flags(), &opts)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func printPrerequisites(w io.Writer, found []engine.Prerequisite) error {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%-9s %s: %s\n", f.State, f.What, f.Detail)
		if f.Fix != "" && f.State != engine.OK {
			fmt.Fprintf(&b, "%-9s   %s\n", "", f.Fix)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
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
