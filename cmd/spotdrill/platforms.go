package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/mod/semver"

	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/kind"
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

// checkedSystem is onPlatform and checkSystem, for commands that only need a system.
func checkedSystem(cmd *cobra.Command, opts *system.Options) (scenarios.Loader, error) {
	loader, err := onPlatform(cmd, opts)
	if err != nil {
		return loader, err
	}
	return loader, checkSystem(opts)
}

// versionsOf is what a platform runs, what the cluster of the options runs in its place, and the flags that change that;
// empty if they are the same, or were chosen.
func versionsOf(p *scenarios.Platform, opts system.Options) string {
	if p == nil {
		return ""
	}
	var runs, here, flags, lacking []string
	for _, of := range []struct {
		program    kind.Program
		name, text string
	}{{kind.Kubernetes, "Kubernetes", p.Versions.Kubernetes}, {kind.CoreDNS, "CoreDNS", p.Versions.CoreDNS}} {
		known, err := kind.ImageOptions{Source: opts.Source}.Known(of.program)
		if err != nil || len(known) == 0 || of.text == "" || opts.Versions.Of(of.program) != "" || runsVersion(of.text, known[0]) {
			continue
		}
		runs, here = append(runs, of.name+" "+of.text), append(here, of.name+" "+known[0])
		slices.Reverse(known)
		i := slices.IndexFunc(known, func(version string) bool { return runsVersion(of.text, version) })
		switch {
		case i < 0:
			lacking = append(lacking, "that "+of.name+" cannot be had here")
		case of.program == kind.Kubernetes:
			flags = append(flags, "--kubernetes "+semver.MajorMinor(known[i])) // pulled and built releases differ
		default:
			flags = append(flags, "--"+string(of.program)+" "+known[i])
		}
	}
	if len(runs) == 0 {
		return ""
	}
	line := fmt.Sprintf("%s runs %s; without flags, a drill here has %s", p.Name, strings.Join(runs, " and "), strings.Join(here, " and "))
	if len(flags) > 0 {
		line += ". With that of the platform: " + strings.Join(flags, " ")
	}
	return strings.Join(append([]string{line}, lacking...), "; ")
}

var versionIn = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// runsVersion reports whether a release is what a platform runs in its own words, such as "1.34 to 1.36" or
// "v1.13.2-eksbuild.19".
func runsVersion(text, release string) bool {
	found := versionIn.FindAllString(text, -1)
	if len(found) == 0 {
		return false
	}
	if strings.Count(found[0], ".") == 1 {
		release = semver.MajorMinor(release)
	}
	return semver.Compare(release, "v"+found[0]) >= 0 && semver.Compare(release, "v"+found[len(found)-1]) <= 0
}

// preset is a platform in platforms --json.
type preset struct {
	Name   string            `json:"name"`
	Title  string            `json:"title"`
	Values []scenarios.Value `json:"values"`
	// NotHere is what a drill does not have of the platform.
	NotHere []string `json:"notHere,omitempty"`
	// Versions are in words what the platform runs, and how to run it here; empty if a drill does by default.
	Versions string `json:"versions,omitempty"`
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
				all = append(all, preset{p.Name, p.Title, p.Values(), p.NotHere, versionsOf(p, system.Options{Source: "."})})
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
	if p.Versions == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", p.Versions)
	return err
}
