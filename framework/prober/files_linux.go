package prober

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// openFiles is how many files a plan may have open at once if no socket is kept.
func openFiles(p Plan) uint64 {
	need := uint64(64) // for everything else
	for _, s := range p.Streams {
		need += s.sockets(p.timeout())
	}
	return need
}

// sockets is how many a stream may have open at once if none is kept: without an
// answer, every query from a fresh port has one until its timeout. An HTTP connection is for
// one request at a time, so that kept ones are as many then.
func (s QueryStream) sockets(timeout time.Duration) uint64 {
	if s.Ports > 0 && s.Mode != history.HTTPKept {
		return uint64(s.Ports)
	}
	return uint64(float64(s.Rate) * (timeout + Tolerance).Seconds())
}

// checkOpenFiles raises the limit of open files if a plan may need more than this
// process may open. It fails if that is not permitted.
func checkOpenFiles(p Plan) error {
	need := openFiles(p)
	if limit := allowFiles(need); limit < need {
		return fmt.Errorf("an outage would leave %d sockets open (rate × timeout of fresh streams), but this process may open %d: "+
			"lower the rate or the timeout, or raise the limit (ulimit -n %d)", need, limit, need)
	}
	return nil
}

// allowFiles raises the limit of open files if it is lower than that and may be raised.
// It returns the limit.
func allowFiles(need uint64) uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	if need <= limit.Cur {
		return limit.Cur
	}
	for _, most := range []uint64{max(need, limit.Max), limit.Max} {
		raised := unix.Rlimit{Cur: min(need, most), Max: most}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			return raised.Cur
		}
	}
	return limit.Cur
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
