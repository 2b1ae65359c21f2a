package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// sequenceOf writes a sequence as lines "from>to text xTimes", without the notice.
func sequenceOf(events ...history.Event) []string {
	var out []string
	for _, c := range draw(verdict.Result{}, recorded(events...)).Sequence.Calls {
		line := fmt.Sprintf("%s>%s %s", c.From, c.To, c.Text)
		if c.From == c.To {
			line = fmt.Sprintf("%s: %s", c.From, c.Text)
		}
		if c.Times > 1 {
			line += fmt.Sprintf(" x%d", c.Times)
		}
		if c.Failed {
			line += " (failed)"
		}
		out = append(out, line)
	}
	return out
}

func receive(at, messages float64) history.Event {
	return history.NewSQSCall("q", "ReceiveMessage", "", history.At(sec(at)), history.Status(200), history.With(history.Numbers{history.Messages: messages}))
}

func TestSequence(t *testing.T) {
	const put = "queue: notice reclaim:  for w-1"
	cordoned := history.NewNodeCordoned("w-1", history.At(sec(12)))
	received := history.NewSQSReceived("q", "m-1", "n-1", history.At(sec(11)))
	deleted := func(at float64) history.Event { return history.NewSQSDeleted("q", "m-1", "n-1", history.At(sec(at))) }
	evict := func(at float64, status int) history.Event {
		return history.NewAPICall("create", history.EvictionsResource, nil, history.Pod("ns/app"), history.At(sec(at)), history.Status(status))
	}
	for name, c := range map[string]struct {
		events []history.Event
		want   []string
	}{
		"deleted before it marked": {[]history.Event{received, deleted(11.5), cordoned}, []string{put, "queue>handler message reclaim received", "handler>queue delete message reclaim", "API server>node w-1: cordoned"}},
		"marked before it deleted": {[]history.Event{received, deleted(12.5), cordoned}, []string{put, "queue>handler message reclaim received", "API server>node w-1: cordoned", "handler>queue delete message reclaim"}},
		"polls between two events are one row": {
			slices.Concat(slices.Repeat([]history.Event{receive(10.5, 0)}, 37), []history.Event{cordoned, receive(13, 0), receive(14, 0)}),
			[]string{put, "handler>queue ReceiveMessage, nothing there x37", "API server>node w-1: cordoned", "handler>queue ReceiveMessage, nothing there x2"},
		},
		"polls and other routine calls in turns": {
			[]history.Event{receive(11, 0), history.NewAPICall("list", history.PodsResource, nil, history.At(sec(11.1)), history.Status(200)), receive(11.2, 0), history.NewAPICall("list", history.PodsResource, nil, history.At(sec(11.3)), history.Status(200))},
			[]string{put, "handler>queue ReceiveMessage, nothing there x2", "handler>API server list pods x2"},
		},
		"a poll with a message is the message": {[]history.Event{receive(11, 1), received}, []string{put, "queue>handler message reclaim received"}},
		"a refused poll": {
			[]history.Event{history.NewSQSCall("q", "ReceiveMessage", "AccessDenied", history.At(sec(11)), history.Status(403), history.Fault("no-rights"))},
			[]string{put, "handler>queue ReceiveMessage: 403 AccessDenied, by the fault no-rights (failed)"},
		},
		"an eviction that a budget refuses": {[]history.Event{evict(11, 429), evict(12, 201)}, []string{put, "handler>API server evict app: 429 (failed)", "handler>API server evict app"}},
		"what the audit log has, if no proxy recorded": {
			[]history.Event{history.NewHandlerTook("h-1", "ns/app", history.Action("evict"), history.At(sec(39)), history.Said(sec(11)))},
			[]string{put, "handler>API server evict app"},
		},
		"what the proxy recorded is not there twice": {
			[]history.Event{evict(11, 201), history.NewHandlerTook("h-1", "ns/app", history.Action("evict"), history.At(sec(39)), history.Said(sec(11)))},
			[]string{put, "handler>API server evict app"},
		},
		"the second handler": {[]history.Event{history.NewSQSDeleted("q", "m-1", "n-1", history.At(sec(11)), history.By(history.OtherHandler))}, []string{put, "second handler>queue delete message reclaim"}},
		"a CoreDNS pod": {
			[]history.Event{
				history.NewEndpointReady("", "ns/dns", "10.0.0.1", history.At(sec(1))),
				podAt(1, history.PodPresent, "dns", "w-1"), podAt(11, history.PodTerminating, "dns", "w-1"), podAt(12, history.PodExited, "dns", "w-1"),
			},
			[]string{put, "API server>CoreDNS dns: terminating", "CoreDNS: dns: exited"},
		},
		"an endpoint that is seen twice in a row": {
			[]history.Event{
				history.NewEndpointTerminating("", "ns/dns", "10.0.0.1", true, history.At(sec(11))),
				history.NewEndpointNotReady("", "ns/dns", "10.0.0.1", history.Conditions{Serving: true, Terminating: true}, history.At(sec(11))),
			},
			[]string{put, "CoreDNS: endpoint 10.0.0.1 terminating, serving"},
		},
		"what was there at first is not shown": {[]history.Event{podAt(9.5, history.PodReady, "app", "w-1")}, []string{put}},
		"what restoring does is not shown":     {[]history.Event{history.NewNodeUncordoned("w-1", history.At(sec(41)))}, []string{put}},
	} {
		if got := sequenceOf(c.events...); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got  %s\n want %s", name, strings.Join(got, "\n      "), strings.Join(c.want, "\n      "))
		}
	}
}

// Only the parts that did something have a column.
func TestTheSequencesColumns(t *testing.T) {
	s := draw(verdict.Result{}, recorded(history.NewNodeCordoned("w-1", history.At(sec(12))))).Sequence
	if want := []Part{TheQueue, APIServer, TheNode}; !slices.Equal(s.Parts, want) {
		t.Errorf("columns %v, want %v", s.Parts, want)
	}
}

func TestALongSequenceIsCut(t *testing.T) {
	var events []history.Event
	for range maxCalls {
		events = append(events, history.NewNodeCordoned("w-1", history.At(sec(12))), history.NewNodeUncordoned("w-1", history.At(sec(12))))
	}
	if s := draw(verdict.Result{}, recorded(events...)).Sequence; len(s.Calls) != maxCalls || s.Omitted != maxCalls+1 {
		t.Errorf("%d calls, %d omitted", len(s.Calls), s.Omitted)
	}
}
