package recording

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestRequests(t *testing.T) {
	const mine, allow = `"user":{"username":"system:serviceaccount:x:handler"}`, `"annotations":{"authorization.k8s.io/decision":"allow"}`
	log := strings.Join([]string{
		`{"stage":"ResponseComplete","verb":"watch",` + mine + `,"objectRef":{"resource":"nodes"},` + allow + `}`,
		`{"stage":"ResponseStarted","verb":"watch","requestURI":"/api/v1/nodes?watch=true",` + mine + `,"objectRef":{"resource":"nodes","apiVersion":"v1"},` + allow + `}`,
		`{"verb":"create","requestReceivedTimestamp":"2026-01-02T15:04:03.000006Z",` + mine + `,"objectRef":{"resource":"pods","namespace":"a","name":"b","apiVersion":"v1","subresource":"eviction"},` + allow + `}`,
		`{"verb":"create","requestReceivedTimestamp":"2026-01-02T15:04:04.000006Z","user":{"username":"system:serviceaccount:x:handler","extra":{"authentication.kubernetes.io/pod-name":["handler-1"]}},"objectRef":{"resource":"pods","namespace":"a","name":"c","apiVersion":"v1","subresource":"eviction"},` + allow + `}`,
		`{"verb":"list",` + mine + `,"objectRef":{"resource":"deployments","apiGroup":"apps"},` + allow + `}`,
		`{"verb":"delete",` + mine + `,"objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"forbid"}}`,
		`{"verb":"get","requestURI":"/version?timeout=32s",` + mine + `,` + allow + `}`,
		`{"verb":"list","user":{"username":"system:serviceaccount:x:other"},"objectRef":{"resource":"secrets"},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"patch","requestReceivedTimestamp":"2026-01-02T15:04:05.000006Z",` + mine + `,"objectRef":{"resource":"nodes","name":"worker"},"responseStatus":{"code":200},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"patch","requestReceivedTimestamp":"2026-01-02T15:04:06.000006Z",` + mine + `,"objectRef":{"resource":"nodes","name":"other"},"responseStatus":{"code":409},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"delete","requestReceivedTimestamp":"2026-01-02T15:04:07.000006Z",` + mine + `,"objectRef":{"resource":"nodeclaims","apiGroup":"karpenter.sh","name":"worker"},"responseStatus":{"code":200},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"create","requestReceivedTimestamp":"2026-01-02T15:04:08.000006Z",` + mine + `,"objectRef":{"resource":"pods","namespace":"a","name":"d","subresource":"eviction"},"responseStatus":{"code":429},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"delete","requestReceivedTimestamp":"2026-01-02T15:04:09.000006Z",` + mine + `,"objectRef":{"resource":"pods","namespace":"a","name":"e"},"responseStatus":{"code":200},` + allow + `}`,
		`{"stage":"ResponseComplete","verb":"deletecollection","requestReceivedTimestamp":"2026-01-02T15:04:10.000006Z",` + mine + `,"objectRef":{"resource":"pods","namespace":"a"},"responseStatus":{"code":200},` + allow + `}`,
		`{"verb":"patch",` + mine, // in the writing
	}, "\n")
	asked, err := requestsOf(strings.NewReader(log), "system:serviceaccount:x:handler")
	if err != nil {
		t.Fatal(err)
	}
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 15, 4, second, 6000, time.UTC) }
	pods := schema.GroupResource{Resource: "pods"}
	changes := []Change{
		{Asked: at(3), Verb: Evict, Of: pods, Namespace: "a", Name: "b"},
		{Asked: at(4), Verb: Evict, Of: pods, Namespace: "a", Name: "c", By: "handler-1"},
		{Asked: at(5), Verb: "patch", Of: schema.GroupResource{Resource: "nodes"}, Name: "worker"},
		{Asked: at(7), Verb: "delete", Of: schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, Name: "worker"},
		{Asked: at(9), Verb: "delete", Of: pods, Namespace: "a", Name: "e"},
		{Asked: at(10), Verb: "deletecollection", Of: pods, Namespace: "a"},
	}
	if !slices.Equal(asked.Changes, changes) {
		t.Errorf("the changes are %+v, want %+v", asked.Changes, changes)
	}
	events := asked.Used
	want := []struct {
		verb, of string
		requests float64
	}{{"watch", "/nodes", 1}, {"create", "/pods/eviction", 3}, {"list", "apps/deployments", 1}, {"get", "/version", 1}, {"patch", "/nodes", 2}, {"delete", "karpenter.sh/nodeclaims", 1}, {"delete", "/pods", 1}, {"deletecollection", "/pods", 1}}
	if len(events) != len(want) {
		t.Fatalf("got %d kinds of request, want %d: %+v", len(events), len(want), events)
	}
	for i, w := range want {
		if e := events[i]; e.Action != w.verb || e.RBACObject() != w.of || e.Numbers[history.Requests] != w.requests {
			t.Errorf("got %s of %s, %v times; want %s of %s, %v times", e.Action, e.RBACObject(), e.Numbers[history.Requests], w.verb, w.of, w.requests)
		}
	}
	if _, err := requestsOf(strings.NewReader("{\"verb\":1}"), ""); err == nil {
		t.Error("a line that is no request of the audit log is read without an error")
	}
}
