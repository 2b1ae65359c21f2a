package handler

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Whatever runs pods, each of its containers finds the API server at the proxy, and has its
// other variables as before.
func TestEveryContainerIsRoutedThroughTheProxy(t *testing.T) {
	for kind, path := range map[string][]string{
		"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "DaemonSet": {"spec", "template", "spec"},
		"StatefulSet": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"}, "CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		spec := map[string]any{
			"initContainers": []any{map[string]any{"name": "first"}},
			"containers": []any{map[string]any{"name": "main", "env": []any{
				map[string]any{"name": "LEVEL", "value": "debug"}, map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere"},
			}}, map[string]any{"name": "sidecar"}},
		}
		if err := unstructured.SetNestedMap(obj.Object, spec, path...); err != nil {
			t.Fatal(err)
		}
		if err := route(obj, Settings{APIHost: "10.96.0.9", APIPort: "6443"}); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(obj.Object)
		for part, times := range map[string]int{
			"name:KUBERNETES_SERVICE_HOST value:10.96.0.9": 3, "name:KUBERNETES_SERVICE_PORT value:6443": 3, "name:LEVEL value:debug": 1, "elsewhere": 0,
		} {
			if n := strings.Count(text, part); n != times {
				t.Errorf("%s: %q is there %d times, want %d: %s", kind, part, n, times, text)
			}
		}
	}
}

func TestWhatRunsNoPodsIsNotRouted(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "spec": map[string]any{"containers": []any{map[string]any{}}}}}
	if err := route(obj, Settings{APIHost: "10.96.0.9", APIPort: "6443"}); err != nil || strings.Contains(fmt.Sprint(obj.Object), "KUBERNETES") {
		t.Errorf("%v, %v", obj.Object, err)
	}
}

// Those of the handlers that come with the product are routed when they are installed.
func TestTheProductsHandlersAreRouted(t *testing.T) {
	routed := settings
	routed.APIHost, routed.APIPort = "10.96.0.9", "6443"
	for _, name := range []string{"builtin", "karpenter", "nth"} {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Installation{Description: d, Settings: routed}.objects()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, obj := range objects {
			found += strings.Count(fmt.Sprint(obj.Object), "KUBERNETES_SERVICE_HOST value:10.96.0.9")
		}
		if found == 0 {
			t.Errorf("%s: no container is routed", name)
		}
	}
}
