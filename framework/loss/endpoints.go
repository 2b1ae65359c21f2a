package loss

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// rulesLag is how much later than the API server kube-proxy may know of endpoints; on a machine
// at rest it is below 100 ms.
const rulesLag = 5 * time.Second

// endpoints are how many endpoints of the service kube-proxy could use, in order of time.
type endpoints []readiness

type readiness struct {
	at    time.Duration
	ready int
}

// newEndpoints follows them: the ready ones, and if there is none, those that end but still
// serve (KEP-1669).
func newEndpoints(st *story.Story, t Target) (out endpoints) {
	ready := map[string]bool{}
	for _, e := range st.Events {
		if !t.Concerns(e) {
			continue
		}
		switch e.Kind {
		case history.EndpointReady:
			ready[e.IP] = true
		case history.EndpointTerminating:
			ready[e.IP] = e.Conditions().Serving
		case history.EndpointNotReady:
			ready[e.IP] = e.Conditions() == history.Conditions{Serving: true, Terminating: true}
		case history.EndpointGone:
			delete(ready, e.IP)
		default:
			continue
		}
		n := 0
		for _, is := range ready {
			if is {
				n++
			}
		}
		out = append(out, readiness{e.At, n})
	}
	return out
}

// none reports whether the service had no endpoint then or shortly before, since kube-proxy
// follows late.
func (es endpoints) none(at time.Duration) bool {
	now := 0
	for _, r := range es {
		if r.at > at {
			break
		}
		now = r.ready
		if now == 0 && r.at >= at-rulesLag {
			return true
		}
	}
	return len(es) > 0 && now == 0
}
