package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestWhatACallToTheAPIServerIs(t *testing.T) {
	for _, c := range []struct {
		method, url string
		want        history.Event
		kubectl     string
	}{
		{"GET", "/api/v1/nodes", history.NewAPICall("list", "/nodes", nil), "nodes"},
		{"GET", "/api/v1/nodes?watch=true&resourceVersion=7", history.NewAPICall("watch", "/nodes", nil), "nodes"},
		{"GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dworker&watch=1", history.NewAPICall("watch", "/nodes", nil, history.Node("worker")), "nodes"},
		{"GET", "/api/v1/nodes/worker", history.NewAPICall("get", "/nodes", nil, history.Node("worker")), "nodes"},
		{"PATCH", "/api/v1/nodes/worker", history.NewAPICall("patch", "/nodes", nil, history.Node("worker")), "nodes"},
		{"PATCH", "/api/v1/nodes/worker/status", history.NewAPICall("patch", "/nodes/status", nil, history.Node("worker")), "nodes/status"},
		{"POST", "/api/v1/namespaces/app/pods/web/eviction", history.NewAPICall("create", "/pods/eviction", nil, history.Pod("app/web")), "pods/eviction"},
		{"DELETE", "/api/v1/namespaces/app/pods", history.NewAPICall("deletecollection", "/pods", nil, history.Object("app")), "pods"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/app/leases/leader", history.NewAPICall("update", "coordination.k8s.io/leases", nil, history.Object("app/leader")), "leases.coordination.k8s.io"},
		{"DELETE", "/apis/karpenter.sh/v1/nodeclaims/a", history.NewAPICall("delete", "karpenter.sh/nodeclaims", nil, history.Object("a")), "nodeclaims.karpenter.sh"},
		{"GET", "/livez?verbose=1", history.NewAPICall("get", "/livez", nil), "livez"},
	} {
		call := parseAPICall(httptest.NewRequest(c.method, c.url, http.NoBody))
		c.want.IP = "192.0.2.1" // httptest's client
		if got := history.NewAPICall("", "", nil, call.detail()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: got %+v", c.method, c.url, got)
		}
		if got := call.kubectlName(); got != c.kubectl {
			t.Errorf("%s %s: for a fault it is %q", c.method, c.url, got)
		}
	}
}

func TestTheMarksThatAWriteSets(t *testing.T) {
	node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}}
	node.Name = "worker"
	node.CreationTimestamp = metav1.Now()
	protobuf, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("client-go has no serializer for protobuf")
	}
	encoded, err := runtime.Encode(scheme.Codecs.EncoderForVersion(protobuf.Serializer, corev1.SchemeGroupVersion), node)
	if err != nil {
		t.Fatal(err)
	}
	const merge, ops = "application/merge-patch+json", "application/json-patch+json"
	for name, c := range map[string]struct{ contentType, body, want string }{
		"a cordon":                       {merge, `{"spec":{"unschedulable":true}}`, "unschedulable"},
		"an uncordon":                    {merge, `{"spec":{"unschedulable":false}}`, ""},
		"a cordon and taints":            {"application/strategic-merge-patch+json", `{"spec":{"unschedulable":true,"taints":[{"key":"a","effect":"NoSchedule"},{"key":"b","effect":"NoExecute"}]}}`, "unschedulable,a,b"},
		"a taint that may be ignored":    {merge, `{"spec":{"taints":[{"key":"a","effect":"PreferNoSchedule"}]}}`, ""},
		"a taint that is taken off":      {"application/strategic-merge-patch+json", `{"spec":{"taints":[{"$patch":"delete","key":"a","effect":"NoSchedule"}]}}`, ""},
		"an annotation":                  {merge, `{"metadata":{"annotations":{"a":"b"}}}`, ""},
		"a JSON patch":                   {ops, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec/unschedulable","value":true},{"op":"add","path":"/spec/taints/-","value":{"key":"a","effect":"NoSchedule"}}]`, "unschedulable,a"},
		"a JSON patch of all taints":     {ops, `[{"op":"replace","path":"/spec/taints","value":[{"key":"a","effect":"NoSchedule"}]}]`, "a"},
		"a JSON patch that takes it off": {ops, `[{"op":"remove","path":"/spec/taints/0"}]`, ""},
		"server-side apply":              {"application/apply-patch+yaml", "spec:\n  taints:\n  - {key: a, effect: NoSchedule}\n", "a"},
		"an update":                      {"application/json; charset=utf-8", `{"kind":"Node","spec":{"unschedulable":true}}`, "unschedulable"},
		"an update in protobuf":          {runtime.ContentTypeProtobuf, string(encoded), "unschedulable,a"},
		"an unknown encoding":            {"application/cbor", "\xd9\xd9\xf7", history.MarksUnknown},
		"nonsense":                       {ops, "{", history.MarksUnknown},
		"no content type":                {"", "{}", history.MarksUnknown},
	} {
		if got := strings.Join(marksIn(c.contentType, []byte(c.body)), ","); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Whatever a client requests, its record has a verb and what was called, and nothing of the
// query or of its credentials.
func FuzzAPICall(f *testing.F) {
	for _, path := range []string{
		"/api/v1/nodes/worker", "/api/v1/namespaces/a/pods/b/eviction", "/apis/g/v1/r/n/s", "/api/v1/watch/nodes", "/api/v1/watch", "/apis//", "//api//v1", "/api/v1/namespaces//pods", "/",
	} {
		f.Add("GET", path, "watch=true&token=secret-of-the-client")
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query + "&x=secret-of-the-client"}, Header: http.Header{"Authorization": {"Bearer secret-of-the-client"}}, RemoteAddr: "10.0.0.1:1"}
		if strings.Contains(method+path, "secret-of-the-client") {
			t.Skip("the path is recorded")
		}
		c := parseAPICall(r)
		e := history.NewAPICall("", "", nil, c.detail())
		if e.IP != "10.0.0.1" || strings.Contains(strings.Join(e.Words(), " "), "secret-of-the-client") {
			t.Errorf("%+v", e)
		}
		_ = c.kubectlName()
	})
}

func FuzzMarks(f *testing.F) {
	for _, kind := range []string{"application/json", "application/json-patch+json", "application/apply-patch+yaml", runtime.ContentTypeProtobuf} {
		f.Add(kind, []byte(`{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`))
		f.Add(kind, []byte("k8s\x00\x0a"))
	}
	f.Fuzz(func(_ *testing.T, contentType string, body []byte) { marksIn(contentType, body) })
}
