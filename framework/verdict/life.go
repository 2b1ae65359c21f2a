package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// disturbed are the pods of the handler that a disturbance was done to.
func (j judge) disturbed(disturbance string) (pods []story.Pod, why string) {
	done := j.All(func(e history.Event) bool { return e.Kind == history.HandlerDisturbed && e.Step() == disturbance })
	if len(done) == 0 {
		return nil, fmt.Sprintf("disturbance %q never began", disturbance)
	}
	for _, e := range done {
		i := slices.IndexFunc(j.Pods, func(p story.Pod) bool { return p.UID() == e.UID })
		if i < 0 {
			return nil, e.Pod + " was not seen"
		}
		pods = append(pods, j.Pods[i])
	}
	return pods, ""
}
