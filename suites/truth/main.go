// Command truth checks the prober against a known truth. Its windows command runs a DNS
// server that fails at known times, and compares these outages with the windows that
// spotdrill probe reports. Its bench command measures the cost of probing. Both do the
// same with other programs. Its stalls command checks whether a verdict distinguishes a machine
// that is busy from a server that fails. Its neighbours command checks that drills come out the same
// alone and at the same time. Its probe command is the prober without the rest of
// spotdrill.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"windows": windows, "bench": bench, "stalls": stalls, "probe": alone, "neighbours": neighbours,
		"stand": stand, "spin": spin, // processes of stalls
	}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:])
	}
	return errors.New("want a command: windows, bench, stalls, neighbours or probe")
}

// flagSet has the flags of one command.
func flagSet(name string) (set *flag.FlagSet, binary *string) {
	set = flag.NewFlagSet(name, flag.ContinueOnError)
	binary = set.String("binary", "bin/spotdrill", "the binary to measure")
	return set, binary
}
