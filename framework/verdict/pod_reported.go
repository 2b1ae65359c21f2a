package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// PodReported has the parameters of checkPodReported.
type PodReported struct {
	Notice string `yaml:"notice"`
	// Says is a part of the event's text, such as the name of a resource.
	Says   string          `yaml:"says"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c PodReported) Validate(in *scenarios.Scope) {
	in.OneOf("notice", c.Notice, in.Notices())
	if c.Says == "" {
		in.Problem("says", "must not be empty")
	}
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c PodReported) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Sent[c.Notice] + c.Within.D())
}

var checkPodReported = check{
	Kind: Kind{
		ID: "podReported", Title: "pending pod reported after %s",
		Requires: "The handler reports, in an event about a pod that finds no node, what the pod requests and no instance type that it may launch has.",
		Fix:      "publish an event on the pod that names the request that no instance type meets",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: what the handler reported about the pod, and when"},
	},
	judge: by(podReported),
}

func podReported(j judge, v Verdict, c PodReported) Verdict {
	v = v.wants(fmt.Sprintf("an event of the handler on a pod that names %s, within %s", c.Says, c.Within.D()), c.Notice)
	put, ok := j.First(func(e history.Event) bool { return e.Kind == history.NoticePut && e.Step() == c.Notice })
	if !ok {
		return v.unknown(fmt.Sprintf("notice %q was never sent", c.Notice))
	}
	limit := put.At + c.Within.D()
	report, ok := j.First(func(e history.Event) bool {
		return e.About("Pod") && e.At >= put.At && e.At <= limit &&
			!story.KubernetesComponent(e.Owner) && strings.Contains(e.Note, c.Says)
	})
	switch {
	case ok:
		v.Numbers = map[string]float64{"reported_seconds": (report.At - put.At).Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s: %s", report.KubernetesReason(), report.Owner, history.Seconds(report.At-put.At), report.Note), put, report)
	case j.Unseen(limit) != "":
		return v.unknown("no event: "+j.Unseen(limit), put)
	}
	return v.fail("no event of the handler on a pod names it", put)
}
