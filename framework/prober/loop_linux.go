package prober

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	// maxSleep bounds how long an arrived answer waits to be settled.
	maxSleep = 20 * time.Millisecond
	// handOverEvery is how often settled queries go to the ledger.
	handOverEvery = 50 * time.Millisecond
)

// loop sends the queries of all streams and takes their answers, in one thread that
// wakes up once a tick: a wake-up for every answer would cost more than everything else.
// Times stay exact, because the kernel records when each answer arrived.
type loop struct {
	clock  *history.Clock
	base   time.Duration // when the schedules start
	epoll  int
	events [256]unix.EpollEvent
	owners []receiver // by file descriptor
	in     *inbox
	out    *outbox
	now    time.Duration // when answers were last received
	wall   time.Duration // the same moment by the wall clock
}

// receiver takes the messages that arrived on a socket.
type receiver interface{ receive(fd int) }

// sender sends the queries of one stream and settles each with its account.
type sender interface {
	// send sends queries from..to of the schedule, which are due, and returns the
	// first one that could not leave yet.
	send(from, to int) (next int)
	// expire settles the queries whose timeout had passed before now.
	expire(now time.Duration)
	// waiting is how many queries are not settled.
	waiting() int
	close()
}

// task is what a sender has to do: a stream, for an account. An answer counts within the timeout.
type task struct {
	loop    *loop
	stream  QueryStream
	timeout time.Duration
	account *account
}

func (t *task) intended(i int) time.Duration {
	return t.loop.base + schedule{t.stream.Rate}.intended(i)
}

// byNumber holds what is known of consecutive queries, by their numbers. Its length is a power of two.
type byNumber[T any] []T

func (b byNumber[T]) at(number uint32) *T { return &b[int(number)&(len(b)-1)] }

// grown is a copy with twice the room, of the queries from first up to next.
func (b byNumber[T]) grown(first, next uint32) byNumber[T] {
	bigger := make(byNumber[T], 2*len(b))
	for n := first; n != next; n++ {
		*bigger.at(n) = *b.at(n)
	}
	return bigger
}

func newLoop(clock *history.Clock, files uint64) (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch sockets: %w", err)
	}
	if err := growFileTable(epoll, files); err != nil {
		return nil, errors.Join(err, unix.Close(epoll))
	}
	return &loop{clock: clock, epoll: epoll, owners: make([]receiver, files), in: newInbox(), out: newOutbox()}, nil
}

// watch passes what arrives on a socket to r until the socket is closed.
func (l *loop) watch(fd int, r receiver) error {
	for fd >= len(l.owners) {
		l.owners = append(l.owners, nil)
	}
	l.owners[fd] = r
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return wrap.Errorf(unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event), "watch a socket")
}

// progress is the progress of a stream.
type progress struct {
	schedule
	sender
	account *account
	count   int // queries intended before the end
	next    int // the first that has neither left nor been given up

	tick time.Duration // the latest tick in which it sent
	room int           // queries that may still leave in that tick
}

func newProgress(s QueryStream, total time.Duration, sender sender, a *account) *progress {
	c := &progress{schedule: schedule{s.Rate}, sender: sender, account: a, tick: -tick}
	c.count = c.due(total - 1)
	return c
}

// run returns when every query of every stream is settled. When ctx ends, it first
// handles the queries that were due by then, so that late ones are still counted. It
// fails at once if their ledger has no room for more.
func (l *loop) run(ctx context.Context, streams []*progress) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // sleeps end on time, not up to 50 µs later
	for stopped, handedOver := false, l.clock.Now(); ; {
		if !stopped && ctx.Err() != nil {
			stopped = true
			for _, c := range streams {
				c.count = min(c.count, max(c.next, c.due(l.clock.Now()-l.base)))
			}
		}
		behind, over := false, true
		for _, c := range streams {
			behind = l.advance(c) || behind
		}
		l.receive()
		for _, c := range streams {
			c.expire(l.now)
			over = over && c.next == c.count && c.waiting() == 0
		}
		if over || l.now-handedOver > handOverEvery {
			handedOver = l.now
			for _, c := range streams {
				if err := c.account.handOver(); err != nil {
					return err
				}
			}
		}
		if over {
			return nil
		}
		if !behind {
			now := l.clock.Now()
			sleep(l.wake(streams, now) - now)
		}
	}
}

// catchUp is how many overdue queries may leave in a tick. All at once would overflow
// the server's socket (some 270 queries on Linux): losses that the prober caused.
const catchUp = 32

// advance sends a batch of due queries and reports whether more are due.
func (l *loop) advance(c *progress) (more bool) {
	elapsed := l.clock.Now() - l.base
	if now := elapsed.Truncate(tick); now != c.tick {
		c.tick, c.room = now, c.rate/int(time.Second/tick)+catchUp
	}
	ready := min(c.due(elapsed), c.count)
	for ; c.next < ready && elapsed-c.intended(c.next) > Tolerance; c.next++ {
		c.account.unsent(l.base+c.intended(c.next), l.base+elapsed, errLate)
	}
	to := min(ready, c.next+min(batchSize, c.room))
	if c.next == to {
		return false
	}
	left := c.send(c.next, to) - c.next
	c.next, c.room = c.next+left, c.room-left
	return c.next == to && to < ready && c.room > 0
}

// sureWithin is the longest duration of a send for which the times of its queries are
// interpolated.
const sureWithin = 500 * time.Microsecond

// leftAt is when query i of n left that were sent between two moments. If this process
// had to wait for the processor in between, the time is unknown and all get the last
// moment: they had left by then, so a window's edge may be earlier than reported, by its
// margin, but never later.
func leftAt(began, ended time.Duration, i, n int) time.Duration {
	if ended-began > sureWithin {
		return ended
	}
	return began + (ended-began)*time.Duration(i)/time.Duration(n)
}

func (l *loop) receive() {
	for n := len(l.events); n == len(l.events); {
		t := time.Now()
		l.now, l.wall = l.clock.Of(t), time.Duration(t.UnixNano())
		var err error
		if n, err = call(unix.SYS_EPOLL_PWAIT, l.epoll, unsafe.Pointer(&l.events[0]), uintptr(len(l.events)), 0, nil, 0); err != nil {
			return
		}
		for _, e := range l.events[:n] {
			l.owners[e.Fd].receive(int(e.Fd))
		}
	}
}

// arrived converts the kernel's time of an arrival to the clock's.
func (l *loop) arrived(wall time.Duration) time.Duration {
	if wall == 0 {
		return l.clock.Now()
	}
	return l.now + wall - l.wall
}

// wake is when the next action is due, within maxSleep.
func (l *loop) wake(streams []*progress, now time.Duration) time.Duration {
	wake := now + maxSleep
	for _, c := range streams {
		if c.next == c.count {
			continue
		}
		at := l.base + c.wake(c.next)
		if at <= now { // it is behind, or its socket was full
			at = l.base + c.tick + tick
		}
		wake = min(wake, at)
	}
	return wake
}

// sleep bypasses Go's scheduler: to release the processor and get it back costs more
// than the work of a tick.
func sleep(d time.Duration) {
	if d > 0 {
		pause := unix.NsecToTimespec(int64(d))
		_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
	}
}

func (l *loop) close() { _ = unix.Close(l.epoll) }

// randomID is a port's first query id; guessing one means guessing 16 bits.
func randomID() uint16 { return uint16(rand.Uint32()) }
