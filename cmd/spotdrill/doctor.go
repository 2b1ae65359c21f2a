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
		Short: "Tell what this machine lacks for drills, with the command that mends it",
		Long: `Doctor looks at the container engine, the host's settings, its size, the images
and the cluster, and changes none of them. "mended" is what the next run puts
right by itself.

Exit code 0: drills can run; 1: something is missing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := system.Examine(cmd.Context(), opts)
			print := printFindings
			if asJSON {
				print = func(w io.Writer, found []engine.Finding) error { return writeJSON(w, found) }
			}
			if err := print(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			return lacking(found)
		},
	}
	systemFlags(cmd.Flags(), &opts)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func printFindings(w io.Writer, found []engine.Finding) error {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.State, f.What, f.Detail)
		if f.Mend != "" && f.State != engine.OK {
			fmt.Fprintf(&b, "%-8s   %s\n", "", f.Mend)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lacking is the error that names what no drill runs without.
func lacking(found []engine.Finding) error {
	var missing []string
	for _, f := range found {
		if f.State == engine.Missing {
			missing = append(missing, f.What)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exitError{exitFailed, fmt.Errorf("no drill can run here: missing are %s", strings.Join(missing, ", "))}
}
