package reports

import (
	"slices"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestUnusedRights(t *testing.T) {
	rule := func(role, verbs, of string) history.Event {
		return history.NewRBACRule(role, verbs, of)
	}
	used := func(verb, of string, requests float64) history.Event {
		return history.NewRBACUsed("", verb, of, history.With(history.Numbers{history.Requests: requests}))
	}
	rules := []history.Event{
		rule("ClusterRole h", "get,patch,delete", "/nodes"),
		rule("ClusterRole h", "create", "/pods/eviction"),
		rule("ClusterRole h", "list", "apps/*"),
		rule("ClusterRole h", "*", "*/*"),
		rule("ClusterRole h", "get", "/healthz/*"),
		rule("Role a/h", "create", "/events"),
	}
	first := history.History{Events: append(slices.Clone(rules), used("get", "/nodes", 3), used("create", "/pods/eviction", 1))}
	second := history.History{Events: append(slices.Clone(rules), used("get", "/nodes", 2), used("list", "apps/deployments", 1), used("get", "/healthz/ping", 1))}

	report := &Report{}
	for _, h := range []history.History{first, second} {
		report.Rights = sumRights(report.Rights, rightsOf(h))
	}
	if got := report.Rights[slices.IndexFunc(report.Rights, func(r Right) bool { return r.Verb == "get" && r.Of == "/nodes" })]; got.Requests != 5 {
		t.Errorf("get of /nodes: %d requests in two drills, want 5", got.Requests)
	}
	var unused []string
	for _, r := range report.unused() {
		unused = append(unused, r.String())
	}
	want := []string{"delete of /nodes (ClusterRole h)", "patch of /nodes (ClusterRole h)", "create of /events (Role a/h)"}
	if !slices.Equal(unused, want) {
		t.Errorf("unused: %q, want %q", unused, want)
	}
	if got := rightsOf(history.History{Events: rules}); got != nil {
		t.Errorf("a history without an audit log has %d rights, as if none had been used", len(got))
	}
}
