package handler

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// route makes the object's pods call the Kubernetes API through the recording proxy. Every
// client with in-cluster configuration reads these variables, and a container's own take
// precedence over those of the kubelet. The handler is not changed otherwise: its token goes
// through, and the cluster's authority, which it trusts, has signed the proxy's certificate.
//
// All drills are routed, whether or not they have a fault of the API server: one way means
// that a handler is not installed again for such a drill, and each history has the calls.
// It costs one more hop in the cluster's network.
func route(obj *unstructured.Unstructured, s Settings) error {
	path := podSpec(obj.GetKind())
	if path == nil || s.APIHost == "" {
		return nil
	}
	env := map[string]string{"KUBERNETES_SERVICE_HOST": s.APIHost, "KUBERNETES_SERVICE_PORT": s.APIPort, "KUBERNETES_SERVICE_PORT_HTTPS": s.APIPort}
	for _, list := range []string{"initContainers", "containers"} {
		if err := setContainersEnv(obj, env, append(slices.Clone(path), list)...); err != nil {
			return fmt.Errorf("route %s through the recording proxy: %w", referenceTo(obj), err)
		}
	}
	return nil
}

// podSpec is where an object of the kind has the spec of its pods; nil if it has none.
func podSpec(kind string) []string {
	switch {
	case kind == "Pod":
		return []string{"spec"}
	case kind == "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	case reference{Kind: kind}.runs():
		return []string{"spec", "template", "spec"}
	}
	return nil
}

// setContainersEnv sets variables in each container of the list at that path. They replace
// those of the manifest.
func setContainersEnv(obj *unstructured.Unstructured, env map[string]string, path ...string) error {
	containers, found, err := unstructured.NestedSlice(obj.Object, path...)
	if err != nil || !found {
		return err
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			return errors.New("a container is not a mapping")
		}
		list, _, err := unstructured.NestedSlice(container, "env")
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(v any) bool {
			variable, _ := v.(map[string]any)
			name, _ := variable["name"].(string)
			_, replaced := env[name]
			return replaced
		})
		for _, name := range slices.Sorted(maps.Keys(env)) {
			list = append(list, map[string]any{"name": name, "value": env[name]})
		}
		container["env"] = list
	}
	return unstructured.SetNestedSlice(obj.Object, containers, path...)
}
