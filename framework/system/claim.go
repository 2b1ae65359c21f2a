package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// ErrInUse is why a system cannot be used: another process plays drills on it, and one
// would restore what the other drains.
var ErrInUse = errors.New("the cluster is in use")

// claim is the right to use a system, which one process has at a time. The kernel releases
// it when the process ends, however it ends.
type claim struct{ file *os.File }

// claimSystem claims the cluster of this name at once, or returns ErrInUse.
func claimSystem(cluster string) (*claim, error) {
	state, err := engine.StateDir()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(state, claims, cluster)
	err = os.MkdirAll(filepath.Dir(name), 0o700)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if why, fix := closed(state, os.Geteuid()); err != nil && why != "" {
		return nil, fmt.Errorf("claim the cluster: %w: %s: %s", err, why, fix)
	}
	if err != nil {
		return nil, fmt.Errorf("claim the cluster: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(name)
		_ = file.Close()
		return nil, fmt.Errorf("%w: process %s of spotdrill uses %s; wait for its end, stop it, or use a cluster of your own (--cluster)",
			ErrInUse, strings.TrimSpace(string(holder)), cluster)
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("claim the cluster: %w", err)
	}
	return &claim{file}, nil
}

// claims is the folder of the claims, in the state folder.
const claims = "in-use"

// release ends the claim. The file stays: to remove it would let two processes hold one
// claim each, on a file and on its successor.
func (c *claim) release() error {
	return wrap.Errorf(c.file.Close(), "release the cluster")
}
