package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spotdrill/spotdrill/framework/history"
)

// mostPerMinute is how many events of the same text a handler may send about one object in any minute.
const mostPerMinute = 6

var checkEventsNotRepeated = ifApplicable(Kind{
	ID: "eventsNotRepeated", Title: "events not repeated",
	Requires: "In no minute does the handler send more than 6 events with the same reason and the same text, numbers aside, about one object, repetitions included. It applies to a handler whose description names the reporter of its events.",
	Fix:      "send an event when something changes, and again only when minutes have passed: each is a write to etcd, and many of them hide the others",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: which event comes again and again, and how far apart?"},
}, eventsNotRepeated)

func eventsNotRepeated(j judge, v Verdict) (Verdict, bool) {
	v = v.requires(fmt.Sprintf("at most %d events a minute with the same text about one object", mostPerMinute))
	reporter := j.History.Meta.Handler.Reporter
	sent := map[string][]history.Event{}
	all := 0
	for _, e := range j.Events {
		if e.Kind != history.ClusterEvent || reporter == "" || e.Owner != reporter {
			continue
		}
		all++
		key := strings.Join([]string{e.Node, e.Pod, e.Object, e.KubernetesReason(), withoutNumbers(e.Note)}, "\n")
		sent[key] = append(sent[key], e)
	}
	var most []history.Event
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		if same := densest(sent[key]); len(same) > len(most) {
			most = same
		}
	}
	switch {
	case all == 0:
		return v, false
	case len(most) > mostPerMinute:
		about := most[0].Node + most[0].Pod + most[0].Object
		return v.fail(fmt.Sprintf("%d events %s about %s within %s", len(most), most[0].KubernetesReason(), about, history.Seconds(most[len(most)-1].At-most[0].At)), capped(most)...), true
	}
	return v.pass(fmt.Sprintf("%s, none of them more than %s a minute", history.Count(all, "event"), history.Count(len(most), "time"))), true
}

// densest are the most of the events, which are in order of time, that are within a minute.
func densest(events []history.Event) (most []history.Event) {
	first := 0
	for i, e := range events {
		for events[first].At <= e.At-time.Minute {
			first++
		}
		if within := events[first : i+1]; len(within) > len(most) {
			most = within
		}
	}
	return most
}

// withoutNumbers is a text in which times and counters make no difference.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}
