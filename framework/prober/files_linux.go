package prober

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// openFiles is how many files a plan may have open at once, with these rings of fresh
// ports.
func openFiles(p Plan, rings []ring) uint64 {
	need := uint64(64) // for everything else
	for i, s := range p.Streams {
		if kept := rings[i].kept(); kept > 0 {
			need += uint64(kept)
		} else {
			need += s.sockets(p.timeout())
		}
	}
	return need
}

// sockets is how many a stream may have open at once if none is kept: without an
// answer, every query from a fresh port has one until its timeout.
func (s QueryStream) sockets(timeout time.Duration) uint64 {
	if s.Ports > 0 {
		return uint64(s.Ports)
	}
	return uint64(float64(s.Rate) * (timeout + Tolerance).Seconds())
}

// checkOpenFiles raises the limit of open files if a plan may need more than this
// process may open, with a socket for each query. It fails if that is not permitted.
func checkOpenFiles(p Plan) error {
	need := openFiles(p, p.singleUse())
	if limit, err := allowFiles(need); err != nil {
		return fmt.Errorf("an outage would leave %d sockets open (rate × timeout of fresh streams), but this process may open %d: "+
			"lower the rate or the timeout, or raise the limit (ulimit -n %d): %w", need, limit, need, err)
	}
	return nil
}

// allowedRings are the plan's rings if this process may open so many files, else those
// with a socket for each query.
func allowedRings(p Plan) []ring {
	rings := p.rings()
	if _, err := allowFiles(openFiles(p, rings)); err != nil {
		return p.singleUse()
	}
	return rings
}

// allowFiles raises the limit of open files if it is lower than that. It returns the
// previous limit.
func allowFiles(need uint64) (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	if need <= limit.Cur {
		return limit.Cur, nil
	}
	raised := unix.Rlimit{Cur: need, Max: max(need, limit.Max)}
	return limit.Cur, unix.Setrlimit(unix.RLIMIT_NOFILE, &raised)
}

// growFileTable enlarges the kernel's table of this process's files for that many, by
// giving an open file the last number for a moment: the table never shrinks. Otherwise
// Linux doubles the table whenever it is full, and a process with several threads then
// waits for an RCU grace period (expand_fdtable in fs/file.c), some 15 ms in which no
// query leaves. That would happen when sockets pile up: at the beginning of an outage.
func growFileTable(open int, files uint64) error {
	last, err := unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, int(files)-1)
	if err == nil {
		err = unix.Close(last)
	}
	if err != nil {
		return fmt.Errorf("make room for %d open files: %w", files, err)
	}
	return nil
}
