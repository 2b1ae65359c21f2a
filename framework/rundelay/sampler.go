package rundelay

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// Interval is how often the waits are read: a wait's begin and end are known to so
	// much, unless this process itself had to wait.
	Interval = 20 * time.Millisecond
	// Shortest is the shortest wait on record. A socket of Linux's default size holds about
	// 270 queries, which is 180 ms of a drill's.
	Shortest = 20 * time.Millisecond
	// rescan is how often new processes and threads are looked for.
	rescan = 100 * time.Millisecond
	// remembered is how long the past of a process is kept: longer than any wait that a drill survives.
	remembered = 10 * time.Second
)

// sampler reads at a fixed interval how long processes waited, and what their sockets dropped meanwhile.
type sampler struct {
	proc   string               // where the proc file system is
	groups string               // where the control groups are
	now    func() time.Duration // the clock of the record
	// find returns the processes to watch. It is called ten times a second.
	find func() ([]Process, error)
	// first, if set, reports whether the kernel is to run a process of that name before all
	// others.
	first func(name string) bool
	// record gets what is found, as it is found. It must return at once.
	record func(history.Event)

	processes map[Process]*process
	last      time.Duration // when the last sample was taken
	measured  time.Duration // when memory was last read
	looked    time.Duration // when processes and threads were last looked for
	stolenBy  time.Duration // when stolen time was last read
	stolen    float64       // s, until then
	buf       [128]byte

	samples, watched, raised int
	late                     time.Duration // the longest time between two samples
}

// run samples until ctx ends, and records how it went. An error means that processes could no longer be
// found.
func (s *sampler) run(ctx context.Context) error {
	started := processTime()
	s.last = s.now()
	defer s.close()
	err := s.look(s.now())
	for err == nil && ctx.Err() == nil {
		time.Sleep(Interval)
		now := s.now()
		s.sample(now)
		if now-s.looked >= rescan {
			err = s.look(now)
		}
	}
	if err == nil {
		s.sample(s.now())
	}
	e := history.NewWaitsRecorded(history.With(history.Numbers{
		history.Samples: float64(s.samples), history.LateMax: s.late.Seconds(),
		history.Processes: float64(s.watched), history.Raised: float64(s.raised), history.RecorderCPU: (processTime() - started).Seconds(),
	}))
	if s.watched == 0 {
		e.Note = "this machine shows none of the processes"
	}
	s.record(e)
	return err
}

// process is what is known of one.
type process struct {
	Process
	found   time.Duration // when it was found
	threads map[int]*thread
	past    []moment // oldest first, never empty
	dropped int64
	read    time.Duration // when dropped was read; negative before the first time
	// limit has what the process's own CPU limit did; nil if that cannot be read here.
	limit *file
	// drops has what its sockets dropped; nil until it is read.
	drops *file
}

type thread struct {
	file        *file
	ran, waited time.Duration
}

// moment is how long a process had run since it was found, and for how long its CPU limit
// had kept it from running, in all.
type moment struct{ at, ran, throttled time.Duration }

func (s *sampler) close() {
	for _, p := range s.processes {
		p.close()
	}
}

func (p *process) close() {
	for _, t := range p.threads {
		_ = t.file.Close()
	}
	for _, f := range []*file{p.limit, p.drops} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// look finds new processes and threads, and forgets those that ended.
func (s *sampler) look(now time.Duration) error {
	found, err := s.find()
	if err != nil {
		return err
	}
	living := make(map[Process]bool, len(found))
	for _, f := range found {
		living[f] = true
		p := s.processes[f]
		if p == nil {
			p = &process{Process: f, found: now, threads: map[int]*thread{}, read: -1}
			p.limit, _ = openThrottle(s.proc, s.groups, f.PID)
			p.past = []moment{{now, 0, p.throttled()}}
			s.processes[f] = p
			s.watched++
		}
		s.threads(p, now)
		s.drops(p, now)
	}
	for key, p := range s.processes {
		if !living[key] {
			p.close()
			delete(s.processes, key)
		}
	}
	s.looked = now
	s.memory(now)
	s.steal(now)
	return nil
}

// threads opens the counts of new threads. What a thread did before it was found counts
// for nothing if its process is new as well, and from the last look on otherwise: it was
// not there then.
func (s *sampler) threads(p *process, now time.Duration) {
	dir := filepath.Join(s.proc, strconv.Itoa(p.PID), "task")
	ids, err := numbers(dir)
	if err != nil {
		return // it has just ended
	}
	for _, id := range ids {
		if p.threads[id] != nil {
			continue
		}
		file, err := open(filepath.Join(dir, strconv.Itoa(id), "schedstat"))
		if err != nil {
			continue
		}
		t := &thread{file: file}
		if p.found == now {
			if t.ran, t.waited, err = s.readThread(t); err != nil {
				_ = file.Close()
				continue
			}
		}
		p.threads[id] = t
		if s.first != nil && s.first(p.Name) && first(id) == nil {
			s.raised++
		}
	}
}

func (s *sampler) readThread(t *thread) (ran, waited time.Duration, err error) {
	n, err := t.file.read(s.buf[:])
	if err != nil {
		return 0, 0, err
	}
	return parseSchedstat(s.buf[:n])
}

func (s *sampler) sample(now time.Duration) {
	gap := now - s.last
	s.samples, s.late, s.last = s.samples+1, max(s.late, gap), now
	for _, p := range s.processes {
		var longest, ran time.Duration
		for id, t := range p.threads {
			nowRan, waited, err := s.readThread(t)
			if err != nil { // the thread has ended
				_ = t.file.Close()
				delete(p.threads, id)
				continue
			}
			longest = max(longest, waited-t.waited)
			ran += nowRan - t.ran
			t.ran, t.waited = nowRan, waited
		}
		p.add(now, ran)
		if longest < Shortest {
			continue
		}
		from := now - longest
		ran, throttled := p.since(from)
		s.record(waited(p.Name, from, now, ran, throttled, gap))
		s.drops(p, now)
	}
}

// waited is the event of a wait from a time to another. The process ran for some of it, in all of its
// threads, and its own CPU limit kept it from running for some; the latter is negative if unknown. Both
// ends may be earlier, by the resolution.
func waited(pod string, from, to, ran, throttled, resolution time.Duration) history.Event {
	numbers := history.Numbers{history.Waited: (to - from).Seconds(), history.Ran: ran.Seconds(), history.Resolution: resolution.Seconds()}
	if throttled >= 0 {
		numbers[history.Throttled] = throttled.Seconds()
	}
	return history.NewProcessorWaited(pod, history.At(to), history.With(numbers))
}

// throttled is for how long the process's CPU limit has kept it from running, in all;
// negative if that cannot be read.
func (p *process) throttled() time.Duration {
	if p.limit == nil {
		return -1
	}
	sum, err := throttled(p.limit)
	if err != nil {
		return -1
	}
	return sum
}

// add takes how long the process ran since the sample before.
func (p *process) add(now, ran time.Duration) {
	p.past = append(p.past, moment{now, p.past[len(p.past)-1].ran + ran, p.throttled()})
	if now-p.past[0].at > 2*remembered {
		p.past = slices.Delete(p.past, 0, slices.IndexFunc(p.past, func(m moment) bool { return now-m.at <= remembered }))
	}
}

// since is for how long the process ran from a time on, and was kept from it by its CPU
// limit; the latter is negative if unknown. The sample before that time counts as well: it
// is not known when it ran in between.
func (p *process) since(from time.Duration) (ran, throttled time.Duration) {
	first, last := p.past[0], p.past[len(p.past)-1]
	for _, m := range slices.Backward(p.past) {
		if m.at <= from {
			first = m
			break
		}
	}
	if first.throttled < 0 || last.throttled < 0 {
		return last.ran - first.ran, -1
	}
	return last.ran - first.ran, last.throttled - first.throttled
}

// drops reports the datagrams that were dropped since it was last called.
func (s *sampler) drops(p *process, now time.Duration) {
	if p.drops == nil {
		p.drops, _ = open(filepath.Join(s.proc, strconv.Itoa(p.PID), "net", "snmp"))
	}
	n, err := receiveErrors(p.drops)
	if err != nil {
		return // it has just ended
	}
	if p.read >= 0 && n > p.dropped {
		s.record(history.NewDatagramsDropped(p.Name, history.At(now), history.With(history.Numbers{
			history.Dropped: float64(n - p.dropped), history.Within: (now - p.read).Seconds(),
		})))
	}
	p.dropped, p.read = n, now
}
