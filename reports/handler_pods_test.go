package reports

import (
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// A handler that evicts itself, or is restarted, is in the report by its records.
func TestWhatHappenedToTheHandlersPods(t *testing.T) {
	pod := func(seconds float64, make func(...history.Detail) history.Event) history.Event {
		return make(history.At(sec(seconds)), history.Node("w-1"), history.Owner("ReplicaSet/handler-5d"))
	}
	of := func(name string, make func(string, string, string, ...history.Detail) history.Event) func(...history.Detail) history.Event {
		return func(with ...history.Detail) history.Event { return make("own/"+name, name, "", with...) }
	}
	events := []history.Event{
		pod(1, func(with ...history.Detail) history.Event {
			return history.NewPodPresent("own/a", "a", "", "Running", with...)
		}),
		pod(2, of("early", history.NewPodCreated)),
		history.Steps.Begins(history.At(sec(3))),
		pod(4, func(with ...history.Detail) history.Event { return history.NewPodExited("own/a", "a", with...) }),
		pod(5, of("b", history.NewPodCreated)),
		pod(6, of("b", history.NewPodRestarted)),
		history.NewPodCreated("default/app", "app", "", history.At(sec(6)), history.Owner("ReplicaSet/app-1")),
		history.Restore.Begins(history.At(sec(7))),
		pod(8, of("late", history.NewPodCreated)),
	}
	for i := range events {
		events[i].Seq = i + 1
	}
	meta := history.Meta{Handler: history.Handler{Name: "own", Deployment: "own/handler"}}
	e := NewEntry(verdict.Result{Outcome: verdict.Fail, Story: story.Read(scenarios.Scenario{}, history.History{Meta: meta, Events: events})})
	var kinds []string
	for _, line := range e.HandlerPods {
		kinds = append(kinds, strings.Join(strings.Fields(line)[1:3], " "))
	}
	if want := []string{"pod.exited own/a", "pod.created own/b", "pod.restarted own/b"}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", e.HandlerPods, want)
	}
	r := New(Folder{}, Handler{Name: "own"}, scenarios.Fast, nil)
	r.Add(e)
	for name, text := range texts(t, r) {
		if strings.Count(text, "own/b") < 2 {
			t.Errorf("%s does not have it:\n%s", name, text)
		}
	}
}
