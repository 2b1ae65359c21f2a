package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Right is one verb of one rule that the handler was given, and how often it was
// used in the whole run. The handler may not need a right that it never used:
// https://kubernetes.io/docs/concepts/security/rbac-good-practices/#least-privilege.
type Right struct {
	Role     string `yaml:"role"` // ClusterRole NAME, or Role NAMESPACE/NAME
	Verb     string `yaml:"verb"`
	Of       string `yaml:"of"`       // group/resource, or a URL
	Requests int    `yaml:"requests"` // of the handler, those for its leases and events included
}

// String is a right as people read it: "patch of /nodes (ClusterRole handler)".
func (r Right) String() string { return fmt.Sprintf("%s of %s (%s)", r.Verb, r.Of, r.Role) }

// covers reports whether the right allows a request.
func (r Right) covers(verb, of string) bool {
	if r.Verb != "*" && r.Verb != verb {
		return false
	}
	if prefix, ok := strings.CutSuffix(r.Of, "*"); ok && strings.HasPrefix(of, prefix) {
		return true // a URL, or every resource of a group
	}
	group, resource, _ := strings.Cut(r.Of, "/")
	_, asked, _ := strings.Cut(of, "/")
	return r.Of == of || group == "*" && (resource == "*" || resource == asked)
}

// rightsOf are the rights that the handler had in a drill, with the requests that
// used them. It is nil if the history has no requests.
func rightsOf(h history.History) []Right {
	var rights []Right
	audited := false
	for _, e := range h.Events {
		if e.Kind != history.RBACRule {
			continue
		}
		for verb := range strings.SplitSeq(e.Action, ",") {
			for of := range strings.SplitSeq(e.RBACObject(), ",") {
				rights = append(rights, Right{Role: e.RBACRole(), Verb: verb, Of: of})
			}
		}
	}
	for _, e := range h.Events {
		if e.Kind != history.RBACUsed {
			continue
		}
		audited = true
		for i := range rights {
			if rights[i].covers(e.Action, e.RBACObject()) {
				rights[i].Requests += int(e.Numbers[history.Requests])
			}
		}
	}
	if !audited {
		return nil
	}
	return rights
}

// sumRights adds the rights of another drill to the sum of the previous ones.
func sumRights(sum, more []Right) []Right {
	for _, right := range more {
		i := slices.IndexFunc(sum, func(r Right) bool { return r.Role == right.Role && r.Verb == right.Verb && r.Of == right.Of })
		if i < 0 {
			sum = append(sum, right)
			continue
		}
		sum[i].Requests += right.Requests
	}
	slices.SortFunc(sum, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Verb, b.Verb))
	})
	return sum
}

// unused are the rights that no request of the run used.
func (r *Report) unused() []Right {
	return slices.DeleteFunc(slices.Clone(r.Rights), func(right Right) bool { return right.Requests > 0 })
}
