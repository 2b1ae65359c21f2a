package handler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/e2e-framework/klient/decoder"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// document is one YAML document of a manifest, with its placeholders.
type document struct {
	file string
	line int // of its first line
	text string
}

// split cuts a manifest into its documents without empty ones, and reports every line
// with an unknown placeholder.
func split(file, text string, allowed []string) ([]document, error) {
	var out []document
	var errs []error
	current := document{file: file, line: 1}
	begin := 0 // of the current document, in text
	add := func(end int) {
		if current.text = text[begin:end]; content(current.text) {
			out = append(out, current)
		}
	}
	at := 0
	for i, line := range strings.SplitAfter(text, "\n") {
		if line == "---" || strings.HasPrefix(line, "---\n") || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "---\r") {
			add(at)
			at += len(line)
			begin, current = at, document{file: file, line: i + 2}
			continue
		}
		at += len(line)
		for _, found := range placeholder.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(allowed, found[1]) {
				errs = append(errs, fmt.Errorf("%s:%d: unknown placeholder %s; allowed: %s", file, i+1, found[0], strings.Join(allowed, ", ")))
			}
		}
	}
	add(at)
	for _, doc := range out {
		if _, err := doc.decode(doc.text); err != nil && len(errs) == 0 {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// content reports whether a document has more than blank lines and comments.
func content(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// decode reads the object without its type, so that the API server gets every field as
// it was written and can refuse a misspelt one.
func (doc document) decode(filled string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := decoder.DecodeString(filled, obj); err != nil {
		return nil, fmt.Errorf("%s:%d: decode the document: %w", doc.file, doc.line, err)
	}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
		return nil, fmt.Errorf("%s:%d: the document needs apiVersion, kind and metadata.name", doc.file, doc.line)
	}
	return obj, nil
}

// sameObject reports whether another document is of the same kind and has the same name.
func (doc document) sameObject(other document) bool {
	a, errA := doc.decode(doc.text)
	b, errB := other.decode(other.text)
	return errA == nil && errB == nil && a.GetKind() == b.GetKind() && a.GetName() == b.GetName()
}

// objects are the objects to install, in order: namespaces, definitions, credentials,
// other objects in the order of the manifests, the objects of each worker, and at last
// what runs pods.
func (h Installation) objects() ([]*unstructured.Unstructured, error) {
	out, err := h.rendered(slices.Concat(h.definitions, h.documents), h.Settings.values())
	if err != nil || len(out) == 0 {
		return nil, err
	}
	changes, err := h.rendered(h.configured().before, h.Settings.values())
	if err != nil {
		return nil, err
	}
	if err := mergeAll(out, changes); err != nil {
		return nil, err
	}
	if err := h.Settings.inLane(out); err != nil {
		return nil, err
	}
	own := []runtime.Object{&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: CredentialsSecret, Namespace: h.Settings.namespace()},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": h.Settings.AccessKey(), "AWS_SECRET_ACCESS_KEY": "test"},
	}}
	if !slices.ContainsFunc(out, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == h.Settings.namespace()
	}) {
		own = append(own, &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: h.Settings.namespace()},
		})
	}
	for _, o := range own {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", o, err)
		}
		obj := &unstructured.Unstructured{Object: fields}
		setLabel(obj, OwnerLabel, h.Name)
		out = slices.Insert(out, 0, obj)
	}
	perWorker, err := h.workerObjects()
	if err != nil {
		return nil, err
	}
	for _, obj := range out {
		if err := route(obj, h.Settings); err != nil {
			return nil, err
		}
	}
	// Those of a worker come after the others of their rank: the sort is stable.
	out = append(out, perWorker...)
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return referenceTo(a).rank() - referenceTo(b).rank() })
	return out, nil
}

// rendered makes the objects of documents, with their placeholders filled.
func (d Description) rendered(documents []document, values [][2]string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, doc := range documents {
		obj, err := doc.decode(fill(doc.text, values))
		if err != nil {
			return nil, err
		}
		setLabel(obj, OwnerLabel, d.Name)
		if err := d.setEnv(obj); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", doc.file, doc.line, err)
		}
		out = append(out, obj)
	}
	return out, nil
}

// setEnv sets the variables of the current drill's feature in the containers of a Deployment or
// DaemonSet; they replace those of the manifest.
func (d Description) setEnv(obj *unstructured.Unstructured) error {
	if !slices.Contains([]string{"Deployment", "DaemonSet"}, obj.GetKind()) || len(d.env) == 0 {
		return nil
	}
	return wrap.Errorf(setContainersEnv(obj, d.env, append(podSpec(obj.GetKind()), "containers")...), "set the feature's variables")
}

func setLabel(obj *unstructured.Unstructured, key, value string) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	obj.SetLabels(labels)
}

// OwnerLabel marks every object that Install created: only those are ever deleted.
const OwnerLabel = "spotdrill.dev/handler"

// The ranks of objects: the order in which they are created. What runs pods comes last,
// because it needs everything else, and a worker's objects directly before it.
const (
	namespaceRank = iota
	definitionRank
	otherRank
	runningRank
	lastRank = runningRank
)

const namespaceKind = "Namespace"

func (r reference) rank() int {
	switch {
	case r.Kind == namespaceKind:
		return namespaceRank
	case r.Kind == "CustomResourceDefinition":
		return definitionRank
	case r.runs():
		return runningRank
	}
	return otherRank
}

// runs reports whether the object runs pods.
func (r reference) runs() bool {
	return slices.Contains([]string{"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job", "CronJob", "Pod"}, r.Kind)
}

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
