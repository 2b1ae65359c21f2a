package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/rundelay"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// stallAttempts is how often a stall is played that could not be judged.
const stallAttempts = 4

// edgeBound is how far the begin and the end of a wait on record may be from the truth: two
// samples, since other programs need the processor as well.
const edgeBound = 2 * rundelay.Interval

// The processors of the server that stalls, and of everything that measures it.
const (
	stalling  = 0
	measuring = 1
)

// stall is a way in which a server stops answering for a known time, and what has to be
// found.
type stall struct {
	name   string
	want   verdict.Outcome // of "no query is lost"
	begin  func(ctx context.Context, s *standing, at, length time.Duration) (from, to time.Duration, err error)
	silent bool // it also drops what it reads, from a tenth of a second before the stall on
}

func kindsOfStalls() []stall {
	return []stall{
		{name: "no processor", want: verdict.Pass, begin: takeProcessor},
		{name: "no processor, and it drops queries", want: verdict.Fail, begin: takeProcessor, silent: true},
		{name: "stopped (SIGSTOP)", want: verdict.Fail, begin: stop},
		{name: "frozen (cgroup)", want: verdict.Fail, begin: freeze},
		{name: "overloaded", want: verdict.Fail, begin: overload},
	}
}

// errUnavailable is why a stall cannot be played on this machine.
var errUnavailable = errors.New("skipped")

// stalls has a DNS server stall in known ways, and judges what was lost as a drill does: with
// the prober, the record of waits and the verdicts of drills. What stands for the cluster
// are the events of one pod that stays, and a flow for each port: there is one server.
func stalls(ctx context.Context, args []string) error {
	set, binary := flagSet("stalls")
	only := set.String("only", "", "play only the stalls whose name contains this")
	if err := set.Parse(args); err != nil {
		return err
	}
	if runtime.NumCPU() < 2 {
		fmt.Println("Stalls: skipped, they need two processors.")
		return nil
	}
	if err := pinAll(measuring); err != nil {
		return err
	}
	apart, err := newRoom(ctx)
	if err != nil {
		fmt.Printf("Stalls: %v\n", err)
		return nil
	}
	defer apart.end()
	row("stall", "for", "wait on record", "its begin, end off", "lost", "dropped at the socket", "counted apart", "verdict", "played")
	row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---", "---:")
	var wrong []error
	for _, kind := range kindsOfStalls() {
		if !strings.Contains(kind.name, *only) {
			continue
		}
		for _, length := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 800 * time.Millisecond} {
			err := kind.judged(ctx, *binary, apart, length)
			if errors.Is(err, errUnavailable) {
				fmt.Printf("\nStall %q: %v\n\n", kind.name, err)
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// judged plays a stall until it can be judged, and compares the verdict with the truth.
func (kind stall) judged(ctx context.Context, binary string, apart *room, length time.Duration) error {
	for attempt := 1; ; attempt++ {
		found, err := kind.play(ctx, binary, apart, length)
		if err != nil {
			return fmt.Errorf("a server that is %s for %v: %w", kind.name, length, err)
		}
		v := found.verdict
		if v.Outcome == verdict.Unknown && attempt < stallAttempts {
			fmt.Fprintf(os.Stderr, "truth: %s for %v, again: %s\n", kind.name, length, v.Got)
			continue
		}
		row(kind.name, length.String(), found.waited.Round(time.Millisecond).String(), found.off(), strconv.Itoa(found.lost), strconv.Itoa(found.dropped),
			fmt.Sprint(v.Numbers["lost_no_processor"]), string(v.Outcome), strconv.Itoa(attempt))
		want := kind.want
		if found.lost == 0 {
			want = verdict.Pass // its socket held everything
		}
		switch {
		case v.Outcome != want:
			return fmt.Errorf("%s for %v: %s (%s), want %s", kind.name, length, v.Outcome, v.Got, want)
		case kind.want == verdict.Pass && (found.end == 0 || max(found.beginOff, found.endOff) > edgeBound):
			return fmt.Errorf("%s for %v: the wait on record begins %v and ends %v off", kind.name, length, found.beginOff, found.endOff)
		}
		return nil
	}
}

// finding is what was found of one stall.
type finding struct {
	verdict          verdict.Verdict
	lost, dropped    int
	waited           time.Duration // on record, of all threads
	begin, end       time.Duration // of the waits that overlap the stall; 0 for none
	beginOff, endOff time.Duration // how far these are from the truth
}

func (f finding) off() string {
	if f.end == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s", ms(f.beginOff), ms(f.endOff))
}

// The pods of the history, and the address of the one that the service leads to.
const (
	stallPod, controlPod = "kube-system/coredns-stalls", "kube-system/coredns-control"
	stallIP              = "10.0.0.1"
)

// The times of a session, from its start.
const (
	noticeAt = 2 * time.Second
	stallAt  = 3 * time.Second
	after    = 3 * time.Second // from the stall's end on
	// settleAfter is when settling begins, from the stall's end on.
	settleAfter = time.Second
)

// play plays one stall and judges it.
func (kind stall) play(ctx context.Context, binary string, apart *room, length time.Duration) (found finding, err error) {
	victim, err := startStand(ctx, apart, stalling)
	if err != nil {
		return found, err
	}
	defer victim.end()
	control, err := startStand(ctx, nil, measuring)
	if err != nil {
		return found, err
	}
	defer control.end()
	dir, err := os.MkdirTemp("", "spotdrill-stall-")
	if err != nil {
		return found, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scenario := stallScenario()
	rec, err := history.Create(dir, history.NewClock(), history.Meta{Scenario: scenario.Name})
	if err != nil {
		return found, err
	}
	clock := time.Duration(rec.Clock().Anchor().Monotonic)
	end := stallAt + length + after
	stop, err := record(ctx, binary, rec, scenario, victim, control, end+2*prober.DefaultTimeout)
	if err != nil {
		return found, err
	}
	at := clock + stallAt
	if kind.silent {
		if err := victim.fail(silent, at-length/2, at+length/2); err != nil {
			return found, errors.Join(err, stop())
		}
	}
	from, to, err := kind.begin(ctx, victim, at, length)
	sleep(ctx, at+length+settleAfter-monotonic())
	rec.Record(history.Settle.Begins())
	sleep(ctx, clock+end-monotonic())
	if err := errors.Join(err, stop()); err != nil {
		return found, err
	}
	h, err := history.Load(dir)
	if err != nil {
		return found, err
	}
	return judgeStall(scenario, h, from-clock, to-clock), ctx.Err()
}

// stallScenario has the one scenario that is judged. At its rates a socket of the system's
// default size is full after some 60 ms.
func stallScenario() scenarios.Scenario {
	return scenarios.Scenario{
		Name: "stall", Title: "A server stalls", Settle: strict.Duration(after - settleAfter),
		Probe:  &scenarios.Probe{Fresh: 500, Fixed: 3500, FixedPorts: 8, Control: 200, Probers: 1, Name: name},
		Checks: []scenarios.Check{verdict.Require(verdict.Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)})},
	}
}

// record starts the record of a session, as a drill's is made. Stop ends it.
func record(ctx context.Context, binary string, rec *history.Recorder, s scenarios.Scenario, victim, control *standing, limit time.Duration) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	watched := func() rundelay.Watched {
		return rundelay.Watched{PIDs: map[int]string{victim.pid(): stallPod, control.pid(): controlPod}}
	}
	for _, phase := range []history.Phase{history.Arrange, history.Record} {
		rec.Record(phase.Begins())
	}
	for pod, ip := range map[string]string{stallPod: stallIP, controlPod: "10.0.0.2"} {
		rec.Record(history.NewPodPresent(pod, pod, "", "Running", history.IP(ip)))
		rec.Record(history.NewPodReady(pod, pod, history.IP(ip)))
		rec.Record(history.NewEndpointReady("", pod, ip))
	}
	rec.Record(history.NewControlChosen("", controlPod, "10.0.0.2"))
	rec.Record(history.Steps.Begins())
	rec.Record(history.NewNoticePut("stall", "", "", history.At(noticeAt), history.Notice("stall")))
	go func() {
		sampled <- rundelay.Record(ctx, binary, rec.Clock(), watched, func(e history.Event) {
			if e.Kind != history.MemoryUsed {
				rec.Record(e)
			}
		})
	}()
	probed, err := probeStall(ctx, binary, rec, s, victim, control, limit)
	if err != nil {
		cancel()
		return nil, errors.Join(err, <-sampled)
	}
	return func() error {
		err := probed()
		cancel()
		err = errors.Join(err, <-sampled)
		rec.Record(history.Restore.Begins())
		return errors.Join(err, rec.Close(true))
	}, nil
}

// probeStall probes by the prober's HTTP interface in a process of its own, as drills do.
func probeStall(ctx context.Context, binary string, rec *history.Recorder, s scenarios.Scenario, victim, control *standing, limit time.Duration) (stop func() error, err error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	serve := exec.CommandContext(ctx, binary, "probe", "serve", "--listen", address)
	if err := serve.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start the prober: %w", err)
	}
	end := func() { cancel(); _ = serve.Wait() }
	question := []prober.Question{{Name: name, Type: dns.TypeA}}
	stream := func(target string, server netip.AddrPort, mode history.Mode, rate, ports int) prober.QueryStream {
		return prober.QueryStream{Target: target, Server: server, Mode: mode, Rate: rate, Ports: ports, Questions: question}
	}
	plan, err := json.Marshal(prober.Plan{For: limit, Timeout: prober.DefaultTimeout, Streams: []prober.QueryStream{
		stream(history.Service, victim.at, history.Fresh, s.Probe.Fresh, 0),
		stream(history.Service, victim.at, history.Fixed, s.Probe.Fixed, s.Probe.FixedPorts),
		stream(history.Control, control.at, history.Fresh, s.Probe.Control, 0),
	}})
	if err != nil {
		end()
		return nil, err
	}
	url := "http://" + address
	answer, err := post(ctx, url+"/probe", plan)
	for begun := monotonic(); err != nil && monotonic()-begun < 5*time.Second; { // it is about to listen
		sleep(ctx, 20*time.Millisecond)
		answer, err = post(ctx, url+"/probe", plan)
	}
	if err != nil {
		end()
		return nil, err
	}
	collected := make(chan error, 1)
	go func() {
		_, err := prober.Collect(ctx, answer, rec, "")
		collected <- err
	}()
	return func() error {
		stopped, err := post(ctx, url+"/stop", nil)
		if err == nil {
			_ = stopped.Close()
		}
		err = errors.Join(err, <-collected)
		end()
		return err
	}, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func post(ctx context.Context, url string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s: %s: %s", url, answer.Status, text)
	}
	return answer.Body, nil
}

// judgeStall judges a session's history, in which every port's queries went to one server.
func judgeStall(s scenarios.Scenario, h history.History, from, to time.Duration) (found finding) {
	ports := map[int]bool{}
	for _, q := range h.Queries {
		if q.Target != history.Service {
			continue
		}
		if q.Outcome.Lost() {
			found.lost++
		}
		if !ports[q.Port] {
			ports[q.Port] = true
			h.Flows = append(h.Flows, history.Flow{Node: q.Node, Port: q.Port, Backend: stallIP})
		}
	}
	for _, e := range h.Events {
		switch waited := e.Numbers.Duration(history.Waited); {
		case e.Kind == history.DatagramsDropped && e.Pod == stallPod:
			found.dropped += int(e.Numbers[history.Dropped])
		case e.Kind == history.ProcessorWaited && e.Pod == stallPod:
			found.waited += waited
			// What is on record of the stall may be several waits in a row.
			if begin := e.At - waited; e.At > from && begin < to {
				if found.begin == 0 {
					found.begin = begin
				}
				found.begin, found.end = min(found.begin, begin), max(found.end, e.At)
			}
		}
	}
	if found.end > 0 {
		found.beginOff, found.endOff = (found.begin - from).Abs(), (found.end - to).Abs()
	}
	found.verdict = verdict.Judge(s, h).Verdicts[0]
	return found
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
