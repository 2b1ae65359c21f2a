// Command spotdrill runs fire drills for spot nodes and cluster DNS.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/reports"
)

// Exit codes of every command.
const (
	exitFailed  = 1  // something failed
	exitUnknown = 2  // nothing failed, but something could not be judged
	exitUsage   = 64 // EX_USAGE of sysexits(3)
	exitHarness = 70 // EX_SOFTWARE: the harness itself broke
)

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// usage is an error in how the command was used.
func usage(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

// judged turns the outcomes of drills into an error with the exit code.
func judged(c reports.Counts) error {
	switch {
	case c.Failed > 0:
		return exitError{exitFailed, fmt.Errorf("%d of %s failed", c.Failed, history.Count(c.Total, "scenario"))}
	case c.Unknown > 0:
		return exitError{exitUnknown, fmt.Errorf("%d of %s could not be judged", c.Unknown, history.Count(c.Total, "scenario"))}
	case c.Total > 0 && c.Skipped == c.Total:
		return exitError{exitUnknown, fmt.Errorf("none of %s was judged: all were skipped", history.Count(c.Total, "scenario"))}
	}
	return nil
}

func main() { os.Exit(execute()) }

// execute runs the command of this process and returns its exit code.
func execute() (code int) {
	reports.LimitMemory()
	ctx, stop := untilInterrupted()
	defer stop()
	// Go exits with 2 on a panic, which means something else here.
	defer func() {
		if broken := recover(); broken != nil {
			printf(os.Stderr, "spotdrill: panic: %v\n%s", broken, debug.Stack())
			code = exitHarness
		}
	}()
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, syscall.EPIPE) && unread(os.Stdout) {
		err = exitError{exitUnknown, errors.New("interrupted: nobody reads its output any more")}
	}
	printf(os.Stderr, "spotdrill: %v\n", err)
	return codeOf(err)
}

func codeOf(err error) int {
	var coded exitError
	if errors.As(err, &coded) {
		return coded.code
	}
	if errors.Is(err, system.ErrNoImage) { // of a version or a handler that was chosen
		return exitUsage
	}
	return exitHarness
}

func newRoot() *cobra.Command {
	root := group("spotdrill", "Fire drills for spot nodes and cluster DNS")
	for _, part := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"drills", "Drills:", []*cobra.Command{
			newInitCommand(), newRunCommand(), newListCommand(), newExplainCommand(), newPlatformsCommand(), newJudgeCommand(), newCompareCommand(), newReportCommand(), newSweepCommand(), newStormCommand(), newExploreCommand(), newUpgradeCheckCommand(),
		}},
		{"system", "The system that drills run on:", []*cobra.Command{newDoctorCommand(), newUpCommand(), newDownCommand(), newCleanCommand()}},
		{"cluster", "Your own cluster:", []*cobra.Command{newObserveCommand(), newLiveCommand(), newRestoreCommand()}},
		{"alone", "Without that system:", []*cobra.Command{newProbeCommand(), newSendCommand(), newRecommendCommand(), newAddonCommand()}},
		{"pods", "What runs in the pods of the system:", []*cobra.Command{newHandlerCommand(), newProxyCommand(), newWorkloadCommand(), newConntrackCommand(), newWaitsCommand(), newVPCCNICommand(), newIMDSCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.id, Title: part.title})
		for _, cmd := range part.commands {
			cmd.GroupID = part.id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersionCommand())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.Version = moduleVersion()
	root.SetHelpCommand(helpCommand())
	root.SetUsageTemplate(wrapped(root.UsageTemplate()))
	describe(root)
	root.InitDefaultCompletionCmd()
	usageErrors(root)
	completeVersions(root)
	return root
}

//go:embed help.txt
var helpText string

// describe gives each command the text and the examples that help.txt has for it.
func describe(root *cobra.Command) {
	for section := range strings.SplitSeq(strings.TrimPrefix(helpText, "# "), "\n# ") {
		path, text, _ := strings.Cut(section, "\n")
		cmd, _, err := root.Find(strings.Fields(path)[1:])
		if err != nil || cmd.CommandPath() != path {
			panic(fmt.Sprintf("help.txt describes %q, which is no command", path))
		}
		long, examples, _ := strings.Cut(text, "Examples:\n")
		cmd.Long, cmd.Example = strings.TrimSpace(long), strings.Trim(examples, "\n")
	}
}

// group is a command that only has subcommands. Without one it prints its help.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				err = fmt.Errorf("%w; did you mean %q?", err, like[0])
			}
			return err
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(commands...)
	return cmd
}

// orInterrupted is the error of something that was interrupted, see untilInterrupted; else it is err.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return exitError{exitUnknown, errors.New("interrupted: what was not known by then is unknown")}
}

// mostInput is how much is read of a file that an argument names, in bytes.
const mostInput = 8 << 20

// readInput reads such a file, which may also be a pipe.
func readInput(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	text, err := files.ReadAll(f, mostInput)
	return text, wrap.Errorf(err, "%s", file)
}

// interruptible is a reader that also ends with the context, while it waits for a person or a pipe.
func interruptible(ctx context.Context, from io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, from)
		_ = in.CloseWithError(err)
	}()
	return out
}

// stderrLine writes a line for the user; standard output is for data.
func stderrLine(format string, args ...any) { printf(os.Stderr, format+"\n", args...) }

// printf writes text for people. Whatever is of others in it (a cluster, a file, an argument) is harmless.
func printf(to io.Writer, format string, args ...any) {
	_, _ = io.WriteString(to, foreign.Lines(fmt.Sprintf(format, args...)))
}

// show prints data: as JSON, or as write writes it for people.
func show(cmd *cobra.Command, asJSON bool, data any, write func(io.Writer) error) error {
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), data)
	}
	return shown(cmd.OutOrStdout(), write)
}

// shown writes text for people as printf does.
func shown(to io.Writer, write func(io.Writer) error) error {
	var b bytes.Buffer // a table is written in pieces, and a line is judged as a whole
	err := write(&b)
	_, written := io.WriteString(to, foreign.Lines(b.String()))
	return errors.Join(err, written)
}

// text writes a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// writeJSON writes one indented JSON document.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
