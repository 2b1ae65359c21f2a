package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

var checkWildcards = ifApplicable(Kind{
	ID: "noWildcard", Title: "no RBAC wildcard",
	Requires: "No verb, resource or API group of the handler's roles is given by *.",
	Fix:      "name the verbs, resources and API groups that the handler needs in its roles instead of *",
	Look:     Look{Text: "the rbac.rule events that are cited: the role and its rules"},
}, wildcards)

// wildcards checks whether the handler was given rights by "*". For a handler that is
// not ours it is only reported: who installs it decides. ok is false if the history
// does not hold the rights.
func wildcards(j judge, v Verdict) (Verdict, bool) {
	v = v.requires("no verb, resource or API group given by *")
	rules := j.All(func(e history.Event) bool { return e.Kind == history.RBACRule })
	var wild []history.Event
	for _, e := range rules {
		if strings.Contains(e.Action, "*") || strings.Contains(e.RBACObject(), "*") {
			wild = append(wild, e)
		}
	}
	switch {
	case len(rules) == 0:
		return v, false
	case len(wild) == 0:
		return v.pass(history.Count(len(rules), "rule")), true
	}
	got := fmt.Sprintf("%d of %s: %s: verbs %s of %s", len(wild), history.Count(len(rules), "rule"), wild[0].RBACRole(), wild[0].Action, wild[0].RBACObject())
	if story.BuiltIn(j.Story) {
		return v.fail(got, capped(wild)...), true
	}
	v.Want += reportedOnly
	return v.pass(got, capped(wild)...), true
}
