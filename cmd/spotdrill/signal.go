package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// untilInterrupted is a context that ends when the user ends the program, so that it puts back what it
// has changed: by Ctrl-C or SIGTERM, a second of which ends the program at once; by closing its terminal,
// unless nohup is to prevent that; or by reading no more of what it prints, as head does.
func untilInterrupted() (ctx context.Context, stop func()) {
	open, closed := context.WithCancel(context.Background())
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE) // also that of a connection to somebody else, which ended
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(gone, syscall.SIGHUP) // it often comes twice
	}
	go func() {
		for s := range gone {
			if s == syscall.SIGHUP || unread(os.Stdout) || unread(os.Stderr) {
				closed()
			}
		}
	}()
	ctx, stop = signal.NotifyContext(open, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// unread reports whether a file is a pipe that nobody reads any more.
func unread(f *os.File) bool {
	of := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(of, 0)
	return err == nil && n > 0 && of[0].Revents&unix.POLLERR != 0
}
