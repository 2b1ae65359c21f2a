package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// platformFlag chooses a preset.
func platformFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "platform", "", "with the values of a `platform`, see spotdrill platforms: "+strings.Join(scenarios.Platforms(), ", "))
}

// onPlatform is a loader with the values of the chosen preset, see session.OnPlatform.
func onPlatform(cmd *cobra.Command, opts *system.Options) (scenarios.Loader, error) {
	loader, err := session.OnPlatform(opts, cmd.Flags().Changed("proxy-mode"))
	if err != nil {
		return loader, exitError{exitUsage, err}
	}
	return loader, nil
}

// preset is a platform in platforms --json.
type preset struct {
	Name   string            `json:"name"`
	Title  string            `json:"title"`
	Values []scenarios.Value `json:"values"`
	// NotHere is what a drill does not have of the platform.
	NotHere []string `json:"notHere,omitempty"`
}

type presets []preset

func newPlatformsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:       "platforms [PLATFORM]",
		Short:     "List the presets of --platform, or the values of one with their sources",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: scenarios.Platforms(),
		RunE: func(cmd *cobra.Command, args []string) error {
			names := scenarios.Platforms()
			if len(args) > 0 {
				names = args
			}
			var all presets
			for _, name := range names {
				p, err := scenarios.PlatformNamed(name)
				if err != nil {
					return exitError{exitUsage, err}
				}
				all = append(all, preset{p.Name, p.Title, p.Values(), p.NotHere})
			}
			if len(args) > 0 {
				return show(cmd, asJSON, all[0], all[0].WriteText)
			}
			return show(cmd, asJSON, all, all.WriteText)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: an object, or an array of all")
	return cmd
}

// WriteText writes a table.
func (all presets) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PLATFORM\tTITLE")
	for _, p := range all {
		fmt.Fprintf(table, "%s\t%s\n", p.Name, p.Title)
	}
	return table.Flush()
}

// WriteText writes the values with their sources, and what a drill does not have.
func (p preset) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n", p.Name, p.Title)
	source := ""
	for _, v := range p.Values {
		if v.Source != source {
			source = v.Source
			fmt.Fprintf(w, "# %s\n", source)
		}
		text := " " + v.Text
		if strings.Contains(v.Text, "\n") {
			text = "\n  " + strings.ReplaceAll(strings.TrimSpace(v.Text), "\n", "\n  ")
		}
		fmt.Fprintf(w, "%s:%s\n", v.Field, text)
	}
	for i, sentence := range p.NotHere {
		_, err := fmt.Fprintf(w, "%s- %s\n", cmp.Or(map[int]string{0: "\nnot here:\n"}[i], ""), sentence)
		if err != nil {
			return err
		}
	}
	return nil
}
