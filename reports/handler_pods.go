package reports

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// handlerPodsMax is how many records of the handler's pods an entry has at most.
const handlerPodsMax = 12

// handlerPods are what happened to the handler's pods from the first step until the cluster was restored;
// nothing if the drill disturbs the handler itself.
func handlerPods(st *story.Story) (lines []string) {
	if st.Scenario.Disturbed() || st.Scenario.ChangesHandler() {
		return nil
	}
	var all []history.Event
	for _, p := range st.Pods {
		if !p.OfHandler(st.History.Meta.Handler) {
			continue
		}
		for _, e := range p.Events {
			switch e.Kind {
			case history.PodRestarted, history.PodExited, history.PodTerminating, history.PodDeleted, history.PodCreated:
				if e.At >= st.Begun && e.At < st.End {
					all = append(all, e)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i, e := range all {
		if i == handlerPodsMax {
			return append(lines, fmt.Sprintf("and %d more", len(all)-i))
		}
		lines = append(lines, eventLine(e))
	}
	return lines
}
