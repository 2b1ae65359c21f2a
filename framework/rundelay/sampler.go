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
	// remembered is for how long it is kept what a process did: longer than any wait that a
	// drill survives.
	remembered = 10 * time.Second
)

// Wait is a time in which a thread of a process was ready to run and had no processor.
type Wait struct {
	Name     string
	From, To time.Duration
	// Ran is for how long all threads of the process together ran meanwhile.
	Ran time.Duration
	// Throttled is for how long the process's own CPU limit kept it from running meanwhile;
	// negative if that cannot be read here.
	Throttled time.Duration
	// Resolution is how much earlier From and To may lie.
	Resolution time.Duration
}

// Event is the wait as a history has it.
func (w Wait) Event() history.Event {
	e := history.NewProcessorWaited(w.Name, history.At(w.To), history.With(history.Numbers{
		history.Waited: (w.To - w.From).Seconds(), history.Ran: w.Ran.Seconds(), history.Resolution: w.Resolution.Seconds(),
	}))
	if w.Throttled >= 0 {
		e.Numbers[history.Throttled] = w.Throttled.Seconds()
	}
	return e
}

// Drop is a number of datagrams that were dropped because a socket's receive buffer was
// full, in the network namespace of a process.
type Drop struct {
	Name     string
	From, To time.Duration
	Dropped  int64
}

// Event is the drop as a history has it.
func (d Drop) Event() history.Event {
	return history.NewDatagramsDropped(d.Name, history.At(d.To), history.With(history.Numbers{
		history.Dropped: float64(d.Dropped), history.Within: (d.To - d.From).Seconds(),
	}))
}

// Summary is how the sampling went.
type Summary struct {
	Samples int
	// Late is the longest time between two samples.
	Late time.Duration
	// Processes is how many were watched, in all.
	Processes int
	// Raised is how many threads the kernel runs before all others because of First.
	Raised int
	// CPU is the processor time that the process took meanwhile.
	CPU time.Duration
}

// Event is the summary as a history has it.
func (s Summary) Event() history.Event {
	e := history.NewWaitsRecorded(history.With(history.Numbers{
		history.Samples: float64(s.Samples), history.LateMax: s.Late.Seconds(),
		history.Processes: float64(s.Processes), history.Raised: float64(s.Raised), history.RecorderCPU: s.CPU.Seconds(),
	}))
	if s.Processes == 0 {
		e.Note = "this machine shows none of the processes"
	}
	return e
}

// Sampler reads the waits of processes at a fixed interval.
type Sampler struct {
	Proc   string               // where the proc file system is
	Groups string               // where the control groups are
	Now    func() time.Duration // the clock of the record
	// Find returns the processes to watch. It is called ten times a second.
	Find func() ([]Process, error)
	// First, if set, reports whether the kernel is to run a process of that name before all
	// others.
	First func(name string) bool
	// Waited and Dropped get what is found, as it is found. They must return at once.
	Waited  func(Wait)
	Dropped func(Drop)
	// Memory, if set, gets what the processes hold, every history.MemoryInterval.
	Memory func(Memory)
}

// Run samples until ctx ends. An error means that processes could no longer be found.
func (s Sampler) Run(ctx context.Context) (Summary, error) {
	started := processTime()
	sampling := sampling{Sampler: s, processes: map[Process]*process{}, last: s.Now()}
	defer sampling.close()
	err := sampling.look(s.Now())
	for err == nil {
		if ctx.Err() != nil {
			sampling.sample(s.Now())
			sampling.CPU = processTime() - started
			return sampling.Summary, nil
		}
		time.Sleep(Interval)
		now := s.Now()
		sampling.sample(now)
		if now-sampling.looked >= rescan {
			err = sampling.look(now)
		}
	}
	return sampling.Summary, err
}

// sampling is a Sampler at work.
type sampling struct {
	Sampler
	Summary
	processes map[Process]*process
	last      time.Duration // when the last sample was taken
	measured  time.Duration // when memory was last read
	looked    time.Duration // when processes and threads were last looked for
	buf       [128]byte
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

func (s *sampling) close() {
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
func (s *sampling) look(now time.Duration) error {
	found, err := s.Find()
	if err != nil {
		return err
	}
	living := make(map[Process]bool, len(found))
	for _, f := range found {
		living[f] = true
		p := s.processes[f]
		if p == nil {
			p = &process{Process: f, found: now, threads: map[int]*thread{}, read: -1}
			p.limit, _ = openThrottle(s.Proc, s.Groups, f.PID)
			p.past = []moment{{now, 0, p.throttled()}}
			s.processes[f] = p
			s.Processes++
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
	return nil
}

// threads opens the counts of new threads. What a thread did before it was found counts
// for nothing if its process is new as well, and from the last look on otherwise: it was
// not there then.
func (s *sampling) threads(p *process, now time.Duration) {
	dir := filepath.Join(s.Proc, strconv.Itoa(p.PID), "task")
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
		if s.First != nil && s.First(p.Name) && first(id) == nil {
			s.Raised++
		}
	}
}

func (s *sampling) readThread(t *thread) (ran, waited time.Duration, err error) {
	n, err := t.file.read(s.buf[:])
	if err != nil {
		return 0, 0, err
	}
	return parseSchedstat(s.buf[:n])
}

// sample reads all threads once.
func (s *sampling) sample(now time.Duration) {
	gap := now - s.last
	s.Samples, s.Late, s.last = s.Samples+1, max(s.Late, gap), now
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
		s.Waited(Wait{Name: p.Name, From: from, To: now, Ran: ran, Throttled: throttled, Resolution: gap})
		s.drops(p, now)
	}
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
func (s *sampling) drops(p *process, now time.Duration) {
	if p.drops == nil {
		p.drops, _ = open(filepath.Join(s.Proc, strconv.Itoa(p.PID), "net", "snmp"))
	}
	n, err := receiveErrors(p.drops)
	if err != nil {
		return // it has just ended
	}
	if p.read >= 0 && n > p.dropped {
		s.Dropped(Drop{Name: p.Name, From: p.read, To: now, Dropped: n - p.dropped})
	}
	p.dropped, p.read = n, now
}
