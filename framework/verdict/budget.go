package verdict

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// blocked is how handlers, kubectl and the API server report that an eviction was refused.
var blocked = regexp.MustCompile(`(?i)block|cannot|can't|could not|unable|fail|violat|refus|reject|denied|prevent|not allowed|too ?many ?requests|\b429\b`)

// reportsBlock reports whether the event is about the node or a pod kept on it, names
// the pod or a budget, and reports that the eviction was refused, not only that it is
// requested.
func reportsBlock(e history.Event, node string, kept []story.Pod) bool {
	about := e.About("Node") && e.Node == node
	text := strings.ToLower(e.Note)
	names := slices.ContainsFunc([]string{"disruption budget", "disruptionbudget", "pdb"}, func(s string) bool { return strings.Contains(text, s) })
	for _, p := range kept {
		_, name, _ := strings.Cut(p.Name(), "/")
		about = about || e.About("Pod") && e.Pod == p.Name()
		names = names || name != "" && strings.Contains(text, name)
		text = strings.ReplaceAll(text, name, "") // a pod's name reports nothing, whatever it is
	}
	return about && names && (blocked.MatchString(e.KubernetesReason()) || blocked.MatchString(text))
}
