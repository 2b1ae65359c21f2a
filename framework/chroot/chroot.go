// Package chroot runs programs of a node from a pod that has the node's root directory mounted.
package chroot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"syscall"
)

// Run runs a program below root, with stdin, which may be nil. Its error has what the program
// printed. It requires CAP_SYS_CHROOT.
func Run(ctx context.Context, root string, stdin io.Reader, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: root}, "/"
	cmd.Stdin = stdin
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(append([]string{path.Base(program)}, args...), " "), err, printed.String())
	}
	return nil
}
