package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// widen sets the receive buffer of a process's UDP sockets from outside, because CoreDNS
// has no setting for it. Above net.core.rmem_max this needs root.
func widen(pid, bytes int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(process) }()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	widened := 0
	for _, f := range files {
		number, err := strconv.Atoi(f.Name())
		if err != nil {
			return err
		}
		is, err := widenSocket(process, number, bytes)
		if err != nil {
			return fmt.Errorf("file %d: %w", number, err)
		}
		if is {
			widened++
		}
	}
	if widened == 0 {
		return errors.New("it has no UDP socket")
	}
	return nil
}

// widenSocket widens a file of a process, if it is a UDP socket.
func widenSocket(process, number, bytes int) (is bool, err error) {
	file, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return false, os.NewSyscallError("pidfd_getfd", err)
	}
	defer func() { _ = unix.Close(file) }()
	kind, err := unix.GetsockoptInt(file, unix.SOL_SOCKET, unix.SO_TYPE)
	if errors.Is(err, unix.ENOTSOCK) || kind != unix.SOCK_DGRAM {
		return false, nil
	}
	return true, os.NewSyscallError("set SO_RCVBUFFORCE", unix.SetsockoptInt(file, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes))
}
