package verdict

import (
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

func claimedMarks(h history.Handler) string {
	var marks []string
	if h.Unschedulable {
		marks = append(marks, "cordoned")
	}
	if h.Taint != "" {
		marks = append(marks, "tainted "+h.Taint)
	}
	if len(marks) == 0 {
		return "marked"
	}
	return strings.Join(marks, " or ")
}
