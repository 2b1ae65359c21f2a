package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRequests(t *testing.T) {
	const mine, allow = `"user":{"username":"system:serviceaccount:x:handler"}`, `"annotations":{"authorization.k8s.io/decision":"allow"}`
	log := strings.Join([]string{
		`{"stage":"ResponseComplete","verb":"watch",` + mine + `,"objectRef":{"resource":"nodes"},` + allow + `}`,
		`{"stage":"ResponseStarted","verb":"watch","requestURI":"/api/v1/nodes?watch=true",` + mine + `,"objectRef":{"resource":"nodes","apiVersion":"v1"},` + allow + `}`,
		`{"verb":"create",` + mine + `,"objectRef":{"resource":"pods","namespace":"a","name":"b","apiVersion":"v1","subresource":"eviction"},` + allow + `}`,
		`{"verb":"create",` + mine + `,"objectRef":{"resource":"pods","namespace":"a","name":"c","apiVersion":"v1","subresource":"eviction"},` + allow + `}`,
		`{"verb":"list",` + mine + `,"objectRef":{"resource":"deployments","apiGroup":"apps"},` + allow + `}`,
		`{"verb":"delete",` + mine + `,"objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"forbid"}}`,
		`{"verb":"get","requestURI":"/version?timeout=32s",` + mine + `,` + allow + `}`,
		`{"verb":"list","user":{"username":"system:serviceaccount:x:other"},"objectRef":{"resource":"secrets"},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"patch","requestReceivedTimestamp":"2026-01-02T15:04:05.000006Z",` + mine + `,"objectRef":{"resource":"nodes","name":"worker"},"responseStatus":{"code":200},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"patch","requestReceivedTimestamp":"2026-01-02T15:04:06.000006Z",` + mine + `,"objectRef":{"resource":"nodes","name":"other"},"responseStatus":{"code":409},` + allow + `}`,
		`{"verb":"patch",` + mine, // in the writing
	}, "\n")
	asked, err := requestsOf(strings.NewReader(log), "system:serviceaccount:x:handler")
	if err != nil {
		t.Fatal(err)
	}
	if want := (NodeWrite{time.Date(2026, 1, 2, 15, 4, 5, 6000, time.UTC), "patch", "worker"}); !slices.Equal(asked.Writes, []NodeWrite{want}) {
		t.Errorf("the changes of nodes are %+v, want %+v", asked.Writes, want)
	}
	events := asked.Used
	want := []struct {
		verb, of string
		requests float64
	}{{"watch", "/nodes", 1}, {"create", "/pods/eviction", 2}, {"list", "apps/deployments", 1}, {"get", "/version", 1}, {"patch", "/nodes", 2}}
	if len(events) != len(want) {
		t.Fatalf("got %d kinds of request, want %d: %+v", len(events), len(want), events)
	}
	for i, w := range want {
		if e := events[i]; e.Action != w.verb || e.Reason != w.of || e.Numbers["requests"] != w.requests {
			t.Errorf("got %s of %s, %v times; want %s of %s, %v times", e.Action, e.Reason, e.Numbers["requests"], w.verb, w.of, w.requests)
		}
	}
	if _, err := requestsOf(strings.NewReader("{\"verb\":1}"), ""); err == nil {
		t.Error("a line that is no request of the audit log is read without an error")
	}
}
