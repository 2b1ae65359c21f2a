package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stand is the command by which a DNS server runs in a process of its own, with a socket of
// the system's default size, until its input ends. It prints its address. A line of its
// input, "silent FROM TO" or "burns FROM TO" in nanoseconds of CLOCK_MONOTONIC, plans an
// outage.
func stand(ctx context.Context, args []string) error {
	set, _ := flagSet("stand")
	ip := set.String("ip", "127.0.0.1", "address to listen on")
	if err := set.Parse(args); err != nil {
		return err
	}
	s, err := startServer(ctx, options{ip: net.ParseIP(*ip)})
	if err != nil {
		return err
	}
	fmt.Println(s.at)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || !slices.Contains([]kind{silent, burns}, kind(fields[0])) {
			return fmt.Errorf("%q is no outage", lines.Text())
		}
		from, errFrom := strconv.ParseInt(fields[1], 10, 64)
		to, errTo := strconv.ParseInt(fields[2], 10, 64)
		if err := errors.Join(errFrom, errTo); err != nil {
			return err
		}
		s.fail(0, []outage{{kind(fields[0]), time.Duration(from), time.Duration(to)}})
	}
	return nil
}

// spin is the command that withholds a processor from every ordinary process, from a moment
// on and for a time. It prints the actual times.
func spin(_ context.Context, args []string) error {
	set, _ := flagSet("spin")
	processor := set.Int("processor", 0, "which to take")
	at := set.Int64("at", 0, "when, in nanoseconds of CLOCK_MONOTONIC")
	length := set.Duration("for", 0, "for how long; below what the kernel leaves to real-time processes")
	if err := set.Parse(args); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := pin(0, *processor); err != nil {
		return err
	}
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}
	if err := unix.SchedSetAttr(0, first, 0); err != nil {
		return fmt.Errorf("run before every ordinary process: %w", err)
	}
	time.Sleep(time.Duration(*at) - monotonic())
	from := monotonic()
	for monotonic()-from < *length {
	}
	fmt.Println(from.Nanoseconds(), monotonic().Nanoseconds())
	return nil
}

// pin has a thread run on one processor only; 0 is the calling thread.
func pin(thread, processor int) error {
	var set unix.CPUSet
	set.Set(processor)
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("run on processor %d only: %w", processor, err)
	}
	return nil
}
