package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// What a wrong command line is answered with: what was given, what is near it, and where to look.

// helpWidth is the longest line of a help, in columns.
const helpWidth = 100

// flagError explains a flag that the command does not have, or a value that the flag does not take.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		if like := strict.DidYouMean("--"+unknown.GetSpecifiedName(), names); like != "" {
			return usage("%w%s see %s --help", err, like, cmd.CommandPath())
		}
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if kind, ok := map[string]string{"int": "a whole number", "duration": "a time with its unit, such as 90s or 5m", "bool": "true or false", "float64": "a number"}[flag.Value.Type()]; ok {
			return usage("--%s is %q: want %s; see %s --help", flag.Name, invalid.GetValue(), kind, cmd.CommandPath())
		}
	}
	return usage("%w; see %s --help", err, cmd.CommandPath())
}

// usageErrors makes wrong arguments of a command and its subcommands a usage error.
func usageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				return nil
			}
			if i := slices.IndexFunc(args, func(arg string) bool { return !slices.Contains(cmd.ValidArgs, arg) }); i >= 0 && len(cmd.ValidArgs) > 0 {
				return usage("%q is not known%s", args[i], strict.Among(args[i], cmd.ValidArgs))
			}
			if len(cmd.ValidArgs) > 0 {
				return usage("%w; it is used as: %s, with one of %s", err, cmd.UseLine(), strings.Join(cmd.ValidArgs, ", "))
			}
			if !cmd.HasSubCommands() {
				return usage("%w; it is used as: %s; see %s --help", err, cmd.UseLine(), cmd.CommandPath())
			}
			return usage("%w; see %s --help", err, cmd.CommandPath())
		}
	}
	for _, sub := range cmd.Commands() {
		usageErrors(sub)
	}
}

// helpCommand shows the help of a command. Unlike cobra's own, it fails if there is none of that name.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show the help of a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 && found.HasSubCommands() {
				err = found.Args(found, rest)
			}
			if err != nil {
				return exitError{exitUsage, err}
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// moduleVersion is what --version prints.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// wrapped makes the help of flags at most helpWidth wide.
func wrapped(template string) string {
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth))
}

// flagGroup is a part of a command's flags in its help.
type flagGroup struct {
	title string
	flags []string
}

// underHeadings shows the flags of a command under headings; those that none has come last. It panics if a flag
// does not exist.
func underHeadings(cmd *cobra.Command, headings ...flagGroup) {
	cmd.InitDefaultHelpFlag()
	var text strings.Builder
	for _, h := range headings {
		part := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, name := range h.flags {
			flag := cmd.Flags().Lookup(name)
			if flag == nil {
				panic(fmt.Sprintf("%s has no flag --%s", cmd.Name(), name))
			}
			part.AddFlag(flag)
		}
		fmt.Fprintf(&text, "%s:\n%s\n", h.title, part.FlagUsagesWrapped(helpWidth))
	}
	last := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.ContainsFunc(headings, func(h flagGroup) bool { return slices.Contains(h.flags, f.Name) }) {
			last.AddFlag(f)
		}
	})
	fmt.Fprintf(&text, "Other flags:\n%s", last.FlagUsagesWrapped(helpWidth))
	const list = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), list, strings.TrimRight(text.String(), "\n"), 1))
}
