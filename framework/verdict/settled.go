package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkSettled = ifApplicable(Kind{
	ID: "settled", Title: "settled", observes: true,
	Requires: "What began had ended, and the record went on for the settle time after that. In spotdrill's own cluster, for a drill with a probe: pods of CoreDNS and of the measured application that terminate or are not Ready; the check is reported only if one is left. In another cluster, watched are rollouts next to CoreDNS, pods of CoreDNS and of the application that terminate or are not Ready, pods that were evicted, and nodes that are not Ready or that are emptied or removed.",
	Fix:      "the verdict names what had not ended: if it needs longer, raise --settle-limit, or settle of the scenario; if it cannot end, such as a pod for which there is no room, repair it and observe again; if it could not be watched, give the rights that --print-rbac prints",
	Look:     Look{Lane: LaneEndpoints, Text: "the lanes of endpoints, pods and nodes: what was still changing when the record ended?"},
}, settled)

// settled checks whether a record is long enough: what is not over can still lose queries. A drill of our
// own does not report it if it is.
func settled(j judge, v Verdict) (Verdict, bool) {
	own := j.Scenario.Observe == nil
	open, last := story.StillUnderWay(j.Story)
	if own && len(open) == 0 {
		return v, false
	}
	settle := j.Scenario.Settle.D()
	v = v.requires(fmt.Sprintf("all that began has ended, and the record goes on for %s after that", settle))
	if j.End > j.Last {
		return v.unknown("the end of the record is missing"), true
	}
	ended, ok := j.FirstOf(history.ObservationEnded)
	if !ok && !own {
		return v.unknown("what was observed did not end"), true
	}
	if len(open) > 0 {
		var names []string
		var evidence []history.Event
		for _, u := range open {
			names, evidence = append(names, u.String()), append(evidence, u.Since)
		}
		return v.unknown("not over at the end of the record: "+strings.Join(capped(names), "; "), capped(evidence)...), true
	}
	if why := story.Unwatched(j.Story); why != "" {
		return v.unknown(why, ended), true
	}
	last = max(last, ended.At)
	if why := j.Unseen(last + settle); why != "" {
		return v.unknown("all is over: "+why, ended), true
	}
	return v.pass(fmt.Sprintf("all was over at +%s, and the record goes on until +%s", history.Seconds(last), history.Seconds(j.Observed)), ended), true
}

// Unsettled is why the record of an observation has to go on: what is under way, and which checks are
// not decided. The rest must stay so for the settle time, from since on.
func Unsettled(s scenarios.Scenario, h history.History, now time.Duration) (why []string, since time.Duration) {
	st := story.Read(s, h)
	open, since := story.StillUnderWay(st)
	for _, u := range open {
		why = append(why, u.String())
	}
	until, undecided := s.Undecided(s.Times(st.Events), now)
	for _, c := range slices.DeleteFunc(undecided, func(c scenarios.Check) bool { return Decided(s, h, []scenarios.Check{c}) }) {
		why = append(why, fmt.Sprintf("check %s is not decided", c.Kind))
	}
	return why, max(since, until-s.Settle.D())
}
