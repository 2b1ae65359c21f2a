package story

import (
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestWhatALostWatchHides(t *testing.T) {
	heard := sec(9)
	st := Read(scenarios.Scenario{}, drain(
		at(12, history.NewWatchLost("nodes", history.Said(heard))),
		at(15, history.NewWatchBack("nodes")),
	))
	for name, c := range map[string]struct {
		seen history.Event
		want float64
	}{
		"before it was lost":             {at(11.9, history.NewNodeCordoned("")), 11.9},
		"when it was back":               {at(15.2, history.NewNodeCordoned("")), 9},
		"long after it was back":         {at(16.5, history.NewNodeCordoned("")), 16.5},
		"by another watch":               {at(15.2, history.NewPodDeleted("", "")), 15.2},
		"a Kubernetes event on the node": {at(15.2, history.NewClusterEvent("", "")), 15.2},
	} {
		if got, why := st.Earliest(c.seen); got != sec(c.want) || (why != "") != (got != c.seen.At) {
			t.Errorf("%s: %s %q, want %gs", name, got, why, c.want)
		}
	}
	for seconds, unseen := range map[float64]bool{11: false, 13: true, 15: false, 18: false} {
		if why := st.Unseen(sec(seconds)); (why != "") != unseen {
			t.Errorf("at +%gs: %q", seconds, why)
		}
		if why := st.Unrecorded(sec(seconds)); why != "" {
			t.Errorf("recorded until +%gs: %q", seconds, why)
		}
	}
}

// The names of the watches and the kinds of the events that they see go together.
func TestEachWatchHidesItsOwnKinds(t *testing.T) {
	for of, kinds := range map[string][]history.Kind{
		"nodes": {history.NodeCordoned}, "pods": {history.PodDeleted}, "events": {history.ClusterEvent},
		"EndpointSlices of kube-dns": {history.EndpointGone},
	} {
		for _, kind := range kinds {
			if !(gap{of: of}).hides(kind) {
				t.Errorf("%s does not hide %s", of, kind)
			}
		}
	}
}

func TestWhenSomethingHappened(t *testing.T) {
	const pod = "kube-system/coredns-a"
	said := func(at time.Duration) *time.Duration { return &at }
	st := Read(scenarios.Scenario{}, history.History{Events: []history.Event{
		history.NewHandlerTook("", pod, history.Said(*said(time.Second)), history.At(60*time.Second)),
		history.NewHandlerTook("", pod, history.Said(*said(20 * time.Second)), history.At(60*time.Second)), // refused until then
		history.NewHandlerTook("", "kube-system/coredns-b", history.Said(*said(20500 * time.Millisecond)), history.At(60*time.Second)),
		history.NewHandlerTook("", pod, history.Said(*said(30 * time.Second)), history.At(60*time.Second)),
	}})
	for name, x := range map[string]struct {
		seen history.Event
		want time.Duration
	}{
		"SIGTERM, as the kubelet writes it":     {history.NewPodSignalled("", "", history.At(5*time.Second), history.Said(*said(4 * time.Second))), 4 * time.Second},
		"a kubelet's time later than seen":      {history.NewPodSignalled("", "", history.At(5*time.Second), history.Said(*said(6 * time.Second))), 5 * time.Second},
		"SIGTERM without the kubelet's time":    {history.NewPodSignalled("", "", history.At(5*time.Second)), 5 * time.Second},
		"an eviction, by its latest request":    {history.NewPodEvicted(pod, "", "", history.At(21*time.Second)), 20 * time.Second},
		"an eviction that nobody asked for":     {history.NewPodEvicted("kube-system/coredns-c", "", "", history.At(21*time.Second)), 21 * time.Second},
		"what has whole seconds only, as seen":  {history.NewPodTerminating("", "", history.At(5*time.Second), history.Said(*said(4 * time.Second))), 5 * time.Second},
		"a request of long before the eviction": {history.NewPodEvicted(pod, "", "", history.At(19*time.Second)), 19 * time.Second},
	} {
		if got := st.Happened(x.seen); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}
