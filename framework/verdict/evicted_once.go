package verdict

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// knownWithin is how soon a client knows that a pod terminates: by the answer to its eviction, or by its watch.
const knownWithin = 5 * time.Second

var checkEvictedOnce = ifApplicable(Kind{
	ID: "evictedOnce", Title: "no eviction of terminating pods",
	Requires: "No pod is evicted again that has been terminating for 5 s. It is not judged while a fault makes watches stale.",
	Fix:      "leave a pod alone that has a deletionTimestamp: it ends by itself, and each further eviction is a write to etcd for nothing",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: when did it begin to terminate? Then the lane Handler: which evictions came after that?"},
}, evictedOnce)

func evictedOnce(j judge, v Verdict) (Verdict, bool) {
	v = v.requires("no eviction of a pod that has been terminating for " + knownWithin.String())
	evicted := j.APICalls(func(e history.Event) bool {
		return e.Resource == history.EvictionsResource && e.Action == "create" && e.Status/100 == http.StatusOK/100
	})
	_, stale := j.First(func(e history.Event) bool { return e.Kind == history.FaultHit && e.FaultType() == history.Stale })
	if len(evicted) == 0 || stale {
		return v, false
	}
	terminating := map[string]history.Event{} // by the pod's name: a pod of a StatefulSet has a successor of the same name
	var again []history.Event
	n := 0.0
	next := 0
	for _, e := range evicted {
		for ; next < len(j.Events) && j.Events[next].At <= story.Arrived(e); next++ {
			switch seen := j.Events[next]; seen.Kind {
			case history.PodTerminating:
				if _, ok := terminating[seen.Pod]; !ok {
					terminating[seen.Pod] = seen
				}
			case history.PodDeleted:
				delete(terminating, seen.Pod)
			}
		}
		if since, ok := terminating[e.Pod]; ok && story.Arrived(e)-since.At > knownWithin {
			again, n = append(again, since, e), n+story.Weight(e)
		}
	}
	if len(again) > 0 {
		return v.fail(fmt.Sprintf("%s of terminating pods, the first of %s, %s after it began to terminate", history.Count(int(n), "eviction"), again[0].Pod, history.Seconds(story.Arrived(again[1])-again[0].At)), capped(again)...), true
	}
	return v.pass(fmt.Sprintf("%s, none of a pod that was terminating already", history.Count(len(evicted), "eviction"))), true
}
