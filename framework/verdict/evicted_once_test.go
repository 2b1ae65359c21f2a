package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// The pod terminates from second 5 on.
func TestEvictedOnce(t *testing.T) {
	play := checkedBy(Require(Untouched{Node: "bystander"}), func(s *script) {
		s.evict(4.9, 201, "")
		s.drop(func(e history.Event) bool { return e.Kind == history.PodDeleted && e.Pod == "default/coredns-a" })
	})
	again := func(seconds float64, status int) func(*script) {
		return func(s *script) { s.evict(seconds, status, "") }
	}
	for _, x := range []expectation{
		{name: "once", want: Pass, got: "1 eviction"},
		{name: "again at once", edit: again(9.9, 201), want: Pass},
		{name: "again later", edit: again(10.1, 201), want: Fail, got: "1 eviction of terminating pods, the first of default/coredns-a, 5.090s after"},
		{name: "again, and refused", edit: again(12, 429), want: Pass},
		{name: "its successor of the same name", edit: func(s *script) {
			s.pod(8, history.PodDeleted, "coredns-a", victim, "ReplicaSet/coredns")
			s.evict(12, 201, "")
		}, want: Pass},
		{name: "counted", edit: func(s *script) {
			s.call(12, history.NewAPICall("create", history.EvictionsResource, nil, history.Pod("default/coredns-a"), history.Status(201)).Folded(history.Numbers{history.Calls: 40, history.Within: 1}))
		}, want: Fail, got: "40 evictions"},
	} {
		x.check = "no eviction of terminating pods"
		x.run(t, play)
	}
	for name, edit := range map[string]func(*script){
		"nothing evicted": func(s *script) { s.drop(isCall) },
		"the handler's watches are stale": func(s *script) {
			s.fault(fault.Fault{On: history.OnAPI, Type: history.Stale, For: strict.Duration(sec(9))}, 3, 12)
			s.evict(12, 201, "")
		},
	} {
		s := play()
		edit(s)
		for _, v := range s.judge().Verdicts {
			if v.ID == "evictedOnce" {
				t.Errorf("%s: it is %s: %s", name, v.Outcome, v.Got)
			}
		}
	}
}
