package timeline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// draw makes the timeline of a history with this result.
func draw(r verdict.Result, h history.History) *Timeline {
	r.Story = story.Read(scenarios.Scenario{}, h)
	return New(r)
}

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// recorded is a history of these events, numbered, with a notice at 10 s and the
// restoring at 40 s.
func recorded(events ...history.Event) history.History {
	until := sec(35)
	h := history.History{Complete: true, Meta: history.Meta{Handler: history.Handler{Unschedulable: true}}}
	h.Events = slices.Concat(events, []history.Event{
		history.Steps.Begins(history.At(sec(9))),
		history.NewNoticePut("reclaim", "", "w-1", history.At(sec(10)), history.Notice("n-1"), history.Until(until)),
		history.Restore.Begins(history.At(sec(40))),
	})
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(a.At - b.At) })
	for i := range h.Events {
		h.Events[i].Seq = i + 1
	}
	return h
}

func podAt(at float64, kind history.Kind, name, node string) history.Event {
	e := history.NewPodCreated("ns/"+name, name, "", history.At(sec(at)), history.Node(node), history.Owner("ReplicaSet/app"))
	e.Kind = kind
	return e
}

func lane(t *testing.T, tl *Timeline, name string) Lane {
	t.Helper()
	i := slices.IndexFunc(tl.Lanes, func(l Lane) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no lane %q", name)
	}
	return tl.Lanes[i]
}

// spans writes a row as "state from-to" in seconds, for comparison.
func spans(r Row) string {
	var out []string
	for _, s := range r.Spans {
		out = append(out, string(s.State)+" "+s.From.String()+"-"+s.To.String())
	}
	return strings.Join(out, ", ")
}

func TestNothingRecordedHasNoTimeline(t *testing.T) {
	if tl := draw(verdict.Result{}, history.History{}); tl != nil {
		t.Errorf("got %+v", tl)
	}
}

func TestTheClockBeginsAtTheNotice(t *testing.T) {
	tl := draw(verdict.Result{}, recorded())
	if tl.Zero != sec(10) || tl.From != sec(8) || tl.To != sec(40) {
		t.Errorf("zero %s, shown %s to %s", tl.Zero, tl.From, tl.To)
	}
}

func TestARunThatWasCutShortIsShownToItsLastEvent(t *testing.T) {
	h := recorded()
	h.Events = h.Events[:2]
	if tl := draw(verdict.Result{}, h); tl.To != sec(10) {
		t.Errorf("shown to %s", tl.To)
	}
}

func TestWhatRestoringDoesIsNotShown(t *testing.T) {
	tl := draw(verdict.Result{}, recorded(
		history.NewNodeCordoned("w-1", history.At(sec(11))),
		history.NewNodeUncordoned("w-1", history.At(sec(41))),
	))
	row := lane(t, tl, Nodes).Rows[0]
	if got := spans(row); got != "running 8s-40s, cordoned 11s-40s" || len(row.Marks) != 1 {
		t.Errorf("%s; marks %+v", got, row.Marks)
	}
}

func TestANodeWhoseInstanceWasTaken(t *testing.T) {
	tl := draw(verdict.Result{}, recorded(
		history.NewNodeRole("victim", "w-1", history.At(sec(9))),
		history.NewNodeCordoned("w-1", history.At(sec(11))),
		history.NewReclaimed("w-1", history.At(sec(35))),
	))
	row := lane(t, tl, Nodes).Rows[0]
	if got := spans(row); got != "running 8s-35s, cordoned 11s-35s, gone 35s-40s" || row.Note != "victim" {
		t.Errorf("%s (%s)", got, row.Note)
	}
}

func TestAnEvictedPodAndItsReplacement(t *testing.T) {
	tl := draw(verdict.Result{}, recorded(
		podAt(1, history.PodPresent, "old", "w-1"), podAt(1, history.PodPresent, "calm", "w-2"),
		podAt(11, history.PodEvicted, "old", "w-1"), podAt(12, history.PodTerminating, "old", "w-1"),
		podAt(12, history.PodCreated, "new", ""), podAt(13, history.PodScheduled, "new", "w-2"), podAt(15, history.PodReady, "new", "w-2"),
		podAt(20, history.PodExited, "old", "w-1"), podAt(21, history.PodDeleted, "old", "w-1"),
	))
	rows := lane(t, tl, Pods).Rows
	if len(rows) != 2 {
		t.Fatalf("rows %+v: a pod to which nothing happened is not shown", rows)
	}
	if got := spans(rows[0]); got != "running 8s-12s, grace 12s-20s, exited 20s-21s" {
		t.Errorf("old: %s", got)
	}
	if got := spans(rows[1]); got != "pending 12s-15s, running 15s-40s" || rows[1].Note != "w-2" {
		t.Errorf("new: %s (%s)", got, rows[1].Note)
	}
	if seq := rows[0].Marks[0].Seq; tl.Lanes[0].Rows[0].Marks[0].Seq == seq || seq == 0 {
		t.Errorf("mark cites event %d", seq)
	}
}

func TestWhatWasDoneToCoreDNSBeginsADrill(t *testing.T) {
	tl := draw(verdict.Result{}, history.History{Events: []history.Event{
		history.Steps.Begins(func(e *history.Event) { e.Seq = 1 }, history.At(sec(1))),
		history.NewDNSDisrupted("kill", func(e *history.Event) { e.Seq = 2 }, history.At(sec(8)), history.Node("w-1")),
		history.NewDNSDisrupted("scale", func(e *history.Event) { e.Seq = 3 }, history.At(sec(9))),
		history.Restore.Begins(func(e *history.Event) { e.Seq = 4 }, history.At(sec(20))),
	}})
	rows := lane(t, tl, Notices).Rows
	if tl.Zero != sec(8) || len(rows) != 1 || len(rows[0].Marks) != 2 || rows[0].Marks[0].Text != "kill" || rows[0].Marks[1].At != sec(9) {
		t.Errorf("zero %s, rows %+v", tl.Zero, rows)
	}
}

// CoreDNS's log shows when the lameduck begins; without the log, it is the first part of
// the grace period.
func TestTheLameduckOfADNSPod(t *testing.T) {
	for want, logged := range map[string][]history.Event{
		"running 8s-12s, lameduck 12s-17s, grace 17s-18s, exited 18s-19s": nil,
		"running 8s-12s, grace 12s-12.5s, lameduck 12.5s-17.5s, grace 17.5s-18s, exited 18s-19s": {
			podAt(12.4, history.PodSignalled, "coredns", "w-1"), podAt(12.5, history.PodLameduck, "coredns", "w-1"),
		},
	} {
		dns := coredns.Settings{Lameduck: strict.Duration(sec(5))}
		tl := draw(verdict.Result{CoreDNS: dns}, recorded(append(logged,
			podAt(1, history.PodPresent, "coredns", "w-1"),
			history.NewEndpointReady("", "ns/coredns", "10.0.0.1", history.At(sec(2))),
			podAt(12, history.PodTerminating, "coredns", "w-1"), podAt(18, history.PodExited, "coredns", "w-1"), podAt(19, history.PodDeleted, "coredns", "w-1"),
		)...))
		row := lane(t, tl, CoreDNS).Rows[0]
		if got := spans(row); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if signalled := slices.ContainsFunc(row.Marks, func(m Mark) bool { return m.Text == "SIGTERM" }); signalled != (logged != nil) {
			t.Errorf("SIGTERM is marked: %t", signalled)
		}
		if slices.ContainsFunc(tl.Lanes, func(l Lane) bool { return l.Name == Pods }) {
			t.Error("a DNS pod is among the others as well")
		}
	}
}

func TestAnEndpointThatTerminatesServingAndThenNot(t *testing.T) {
	const pod, ip = "ns/coredns", "10.0.0.1"
	at := func(seconds float64) history.Detail { return history.At(sec(seconds)) }
	tl := draw(verdict.Result{}, recorded(
		history.NewEndpointReady("", pod, ip, at(2)),
		history.NewEndpointTerminating("", pod, ip, true, at(12)),
		history.NewEndpointNotReady("", pod, ip, history.Conditions{Serving: true, Terminating: true}, at(12)),
		history.NewEndpointTerminating("", pod, ip, false, at(17)), history.NewEndpointGone("", pod, ip, at(18)),
		history.NewEndpointReady("", "ns/new", "10.0.0.2", history.At(sec(20))),
	))
	if got := spans(lane(t, tl, Endpoints).Rows[1]); got != "ready 20s-40s" {
		t.Errorf("new: %s", got)
	}
	if got := spans(lane(t, tl, Endpoints).Rows[0]); got != "ready 8s-12s, serving 12s-17s, terminating 17s-18s" {
		t.Error(got)
	}
}

func TestAMessageIsInHandUntilItIsDeleted(t *testing.T) {
	tl := draw(verdict.Result{}, recorded(
		history.NewSQSReceived("", "m-1", "n-1", history.At(sec(11))), history.NewSQSDeleted("", "m-1", "n-1", history.At(sec(12))),
		history.NewSQSReceived("", "m-2", "n-1", history.At(sec(13))),
	))
	if got := spans(lane(t, tl, Handler).Rows[0]); got != "in-hand 11s-12s, in-hand 13s-40s" {
		t.Error(got)
	}
}

func TestManyRowsAreLeftOutAndCounted(t *testing.T) {
	var events []history.Event
	for i := range 40 {
		events = append(events, podAt(11, history.PodCreated, strings.Repeat("p", i+1), "w-1"))
	}
	if l := lane(t, draw(verdict.Result{}, recorded(events...)), Pods); len(l.Rows) != maxRows || l.Omitted != 40-maxRows {
		t.Errorf("%d rows, %d omitted", len(l.Rows), l.Omitted)
	}
}

func poll(from, to float64) history.Event {
	return history.NewSQSCall("", "ReceiveMessage", "", history.At(sec(to)), history.With(history.Numbers{history.Took: to - from}))
}

func TestTheWaterfallOfANotice(t *testing.T) {
	w := draw(verdict.Result{}, recorded(
		podAt(1, history.PodPresent, "a", "w-1"), podAt(1, history.PodPresent, "b", "w-1"),
		history.NewPodPresent("ns/daemon", "daemon", "", "", history.At(sec(1)), history.Node("w-1"), history.Owner("DaemonSet/daemon")),
		// Two pollers, one of them in the middle of its work for some of the time.
		poll(9, 10.02), poll(10.01, 10.04), poll(10.07, 10.1),
		history.NewSQSReceived("", "m-1", "n-1", history.At(sec(10.1))),
		history.NewNodeCordoned("w-1", history.At(sec(10.2))),
		podAt(10.3, history.PodEvicted, "a", "w-1"), podAt(10.4, history.PodEvicted, "b", "w-1"),
		// What the API server's clock has is earlier, also than the mark, and is left out.
		history.NewHandlerTook("handler", "ns/a", history.At(sec(10.5)), history.Said(sec(10.15))),
		podAt(11, history.PodCreated, "c", ""), podAt(11, history.PodCreated, "d", ""),
		podAt(12, history.PodReady, "c", "w-2"), podAt(14, history.PodReady, "d", "w-2"),
		podAt(15, history.PodDeleted, "b", "w-1"), podAt(16, history.PodDeleted, "a", "w-1"),
		history.NewSQSDeleted("", "m-1", "n-1", history.At(sec(17))),
	)).Waterfalls[0]
	if w.Queue.Round(time.Millisecond) != 70*time.Millisecond {
		t.Errorf("LocalStack's share is %s, want 70ms", w.Queue)
	}
	if w.Notice != "reclaim" || w.Node != "w-1" || w.Deadline != sec(35) {
		t.Errorf("%+v", w)
	}
	want := map[string]time.Duration{
		"notice put": 0, "received": sec(0.1), "marked": sec(0.2), "first eviction": sec(0.3),
		"last pod gone": sec(6), "replacements ready": sec(4), "message deleted": sec(7),
	}
	if len(w.Steps) != len(want) {
		t.Errorf("steps %+v", w.Steps)
	}
	for _, s := range w.Steps {
		if !s.Seen || s.After != want[s.Name] {
			t.Errorf("%s after %s (seen %t), want %s", s.Name, s.After, s.Seen, want[s.Name])
		}
	}
}

func TestTheWaterfallOfANoticeInTheMetadata(t *testing.T) {
	h := recorded(
		podAt(1, history.PodPresent, "a", "w-1"),
		history.NewMetadataRead("w-1", "meta-data/spot/instance-action", "", history.At(sec(9)), history.Status(404)),
		history.NewMetadataRead("w-2", "", history.SpotInterruption, history.At(sec(10.3)), history.Status(200)),
		history.NewMetadataRead("w-1", "", history.RebalanceRecommendation, history.At(sec(10.4)), history.Status(200)),
		history.NewMetadataRead("w-1", "", history.SpotInterruption, history.At(sec(11)), history.Status(200)),
		history.NewNodeCordoned("w-1", history.At(sec(12))),
		podAt(15, history.PodDeleted, "a", "w-1"),
	)
	h.Meta.Handler.Reads = history.FromMetadata
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == history.NoticePut {
			*e = history.NewNoticePut(e.Step(), history.SpotInterruption, e.Node, history.Like(*e))
		}
	}
	after := map[string]time.Duration{}
	for _, s := range draw(verdict.Result{}, h).Waterfalls[0].Steps {
		after[s.Name] = s.After
	}
	if after["read in the metadata"] != sec(1) {
		t.Errorf("read after %s", after["read in the metadata"])
	}
	for _, of := range []string{"received", "message deleted"} {
		if _, ok := after[of]; ok {
			t.Errorf("there is a step %q without a queue", of)
		}
	}
}

func TestTheWaterfallOfALaunchedReplacement(t *testing.T) {
	steps := []history.Event{
		podAt(1, history.PodPresent, "a", "w-1"),
		history.NewInstanceLaunched("i-before", "", "", history.At(sec(9.5))),
		history.NewSQSCall("", "ec2:CreateFleet", "", history.At(sec(10.5)), history.With(history.Numbers{history.Took: 0.3})),
		history.NewInstanceLaunched("i-2", "", "", history.At(sec(11))),
		history.NewInstanceJoined("i-before", "w-3", history.At(sec(11.5))),
		history.NewNodeReady("w-3", history.At(sec(12))),
		history.NewNodePresent("w-2", "spot", history.At(sec(18))),
		history.NewInstanceJoined("i-2", "w-2", history.At(sec(19))),
		history.NewNodeReady("w-2", history.At(sec(20))),
	}
	tl := draw(verdict.Result{}, recorded(steps...))
	after := map[string]time.Duration{}
	for _, s := range tl.Waterfalls[0].Steps {
		if s.Seen {
			after[s.Name] = s.After
		}
	}
	if after["replacement asked for"] != sec(0.2) || after["replacement Ready"] != sec(10) {
		t.Errorf("asked for after %s, Ready after %s", after["replacement asked for"], after["replacement Ready"])
	}
	rows := lane(t, tl, Nodes).Rows
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == "w-2" })
	if i < 0 || !strings.HasPrefix(spans(rows[i]), "running 18s") {
		t.Errorf("the rows of nodes are %+v; want w-2 there from 18s on", rows)
	}
}

// The waterfall and the verdicts read the same drain: only a mark that the handler's
// description names begins it, and the pods that came to the node before that mark must
// leave.
func TestTheWaterfallGoesByTheHandlersOwnMark(t *testing.T) {
	h := recorded(
		podAt(1, history.PodPresent, "a", "w-1"),
		history.NewNodeCordoned("w-1", history.At(sec(10.2))), // somebody else's
		podAt(10.5, history.PodCreated, "late", ""), podAt(10.6, history.PodScheduled, "late", "w-1"),
		history.NewNodeTainted("w-1", "example.com/draining", "", history.At(sec(11))),
		podAt(12, history.PodDeleted, "a", "w-1"), podAt(20, history.PodDeleted, "late", "w-1"),
	)
	h.Meta.Handler = history.Handler{Taint: "example.com/draining"}
	after := map[string]time.Duration{}
	for _, s := range draw(verdict.Result{}, h).Waterfalls[0].Steps {
		if s.Seen {
			after[s.Name] = s.After
		}
	}
	if after["marked"] != sec(1) || after["last pod gone"] != sec(10) {
		t.Errorf("marked after %s, last pod gone after %s", after["marked"], after["last pod gone"])
	}
}

func TestAWaterfallSaysWhatNeverCame(t *testing.T) {
	w := draw(verdict.Result{}, recorded(podAt(1, history.PodPresent, "a", "w-1"), podAt(11, history.PodEvicted, "a", "w-1"))).Waterfalls[0]
	for _, s := range w.Steps {
		if want := s.Name == "notice put" || s.Name == "first eviction"; s.Seen != want {
			t.Errorf("%s: seen %t", s.Name, s.Seen)
		}
	}
}

func TestQueriesAreCountedInBins(t *testing.T) {
	h := recorded()
	add := func(at float64, target string, mode history.Mode, o history.Outcome) {
		h.Queries = append(h.Queries, history.Query{Target: target, Mode: mode, Intended: sec(at), Outcome: o})
	}
	add(7, history.Service, history.Fresh, history.Timeout) // before what is shown
	add(8, history.Service, history.Fresh, history.Answered)
	add(8.01, history.Service, history.Fresh, history.Timeout)
	add(8.03, history.Service, history.Fresh, history.Unsent)
	add(9, history.Service, history.Fixed, history.Answered)
	add(9, history.Control, history.Fresh, history.ServFail)
	add(9, history.Echo, history.Fixed, history.Timeout)
	if s := draw(verdict.Result{DNS: &loss.Measurement{}}, h).Streams; len(s) != 3 {
		t.Errorf("%d lanes of answers where the echo was not asked, want 3", len(s))
	}
	s := draw(verdict.Result{DNS: &loss.Measurement{Echo: loss.Stream{Asked: 1}}}, h).Streams
	if s[0].Width != 20*time.Millisecond {
		t.Fatalf("a bin of %s", s[0].Width)
	}
	if s[0].Bins[0] != (Bin{Asked: 2, Lost: 1}) || s[0].Bins[1] != (Bin{Unsent: 1}) || s[0].Unsent != 1 {
		t.Errorf("fresh: %+v", s[0].Bins[:2])
	}
	if s[1].Bins[50] != (Bin{Asked: 1}) || s[2].Bins[50] != (Bin{Asked: 1, Lost: 1}) || s[3].Bins[50] != (Bin{Asked: 1, Lost: 1}) {
		t.Errorf("fixed %+v, control %+v, echo %+v", s[1].Bins[50], s[2].Bins[50], s[3].Bins[50])
	}
}

func TestBinsAreRoundAndFew(t *testing.T) {
	for shown, want := range map[time.Duration]time.Duration{
		time.Second: time.Millisecond, 35 * time.Second: 20 * time.Millisecond, 2 * time.Minute: 100 * time.Millisecond, time.Hour: 2 * time.Second,
	} {
		if got := binWidth(shown); got != want {
			t.Errorf("%s: bins of %s, want %s", shown, got, want)
		}
	}
}
