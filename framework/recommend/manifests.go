package recommend

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/files"
)

// corefileKey is the usual key and file name of a Corefile.
const corefileKey = "Corefile"

// mostManifests is how many bytes are read of each file.
const mostManifests = 64 << 20

// Manifests are objects of a cluster in files, such as `kubectl get -o yaml` writes them. They answer as a
// read-only API server: a kind of which they have no object cannot be read, so that it is unknown whether
// the cluster has one.
type Manifests struct {
	objects []unstructured.Unstructured
	names   map[objectName]bool // of objects
	// whole is set if the files have all that there is: other kinds then have no objects.
	whole bool
}

// ReadManifests reads files, and the .yaml, .yml and .json files of folders and of the folders in them. Objects
// without a namespace get that one. Of several objects of one name, the last one counts. A file whose name begins with
// Corefile is the ConfigMap coredns. The name "-" is stdin. Errors name the file, and what is not read in it.
func ReadManifests(stdin io.Reader, namespace string, paths ...string) (*Manifests, error) {
	m := &Manifests{}
	var errs []error
	add := func(name string, text []byte, err error) {
		switch {
		case err != nil:
		case strings.HasPrefix(filepath.Base(name), corefileKey):
			m.put(unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "coredns"}, "data": map[string]any{corefileKey: string(text)},
			}}, namespace)
		default:
			err = m.add(text, namespace)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, path := range paths {
		if path == "-" {
			text, err := io.ReadAll(files.Limit(stdin, mostManifests))
			add("stdin", text, err)
			continue
		}
		err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() || at != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(at)):
				return nil
			}
			if at == path {
				text, err := files.ReadFile(at, mostManifests)
				add(at, text, err)
				return nil
			}
			below, err := filepath.Rel(path, at)
			if err != nil {
				return err
			}
			text, err := files.Read(path, below, mostManifests)
			add(at, text, err)
			return nil
		})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return m, nil
}

// add adds the objects of a file: documents of YAML or JSON, and the items of lists.
func (m *Manifests) add(text []byte, namespace string) error {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var decoded any
		if err == nil && json.Unmarshal(document, &decoded) != nil { // JSON is faster to read
			err = yaml.Unmarshal(document, &decoded)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		if decoded == nil {
			continue
		}
		object, _ := decoded.(map[string]any)
		u := unstructured.Unstructured{Object: object}
		if len(object) == 0 || u.GetKind() == "" || u.GetAPIVersion() == "" {
			return fmt.Errorf("document %d is no object of Kubernetes: it has no kind and apiVersion", n)
		}
		if !u.IsList() {
			if err := typed(u); err != nil {
				return fmt.Errorf("document %d: %w", n, err)
			}
			m.put(u, namespace)
			continue
		}
		items, _ := object["items"].([]any)
		for _, item := range items {
			of, _ := item.(map[string]any)
			one := unstructured.Unstructured{Object: of}
			if kind, typed := strings.CutSuffix(u.GetKind(), "List"); typed && kind != "" && of != nil && one.GetKind() == "" { // as the API lists a kind
				one.SetKind(kind)
				one.SetAPIVersion(u.GetAPIVersion())
			}
			if one.GetKind() == "" {
				return fmt.Errorf("document %d: an item of the list has no kind", n)
			}
			if err := typed(one); err != nil {
				return fmt.Errorf("document %d: %w", n, err)
			}
			m.put(one, namespace)
		}
	}
}

// typed is an error if a value of an object has another type than that of its field, which an API server refuses.
func typed(u unstructured.Unstructured) error {
	into, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // a kind that is not read by its type
	}
	text, err := json.Marshal(u.Object)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		needed := map[reflect.Kind]string{
			reflect.String: "a string: quote it", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "fields", reflect.Map: "fields",
		}[wrong.Type.Kind()]
		if needed == "" {
			needed = "a number"
		}
		err = fmt.Errorf("%s is a %s, and must be %s", wrong.Field, wrong.Value, needed)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

func (m *Manifests) put(u unstructured.Unstructured, namespace string) {
	if u.GetNamespace() == "" {
		u.SetNamespace(namespace)
	}
	if name := nameOf(u); m.names[name] { // only then are all looked at: there can be many
		m.objects = slices.DeleteFunc(m.objects, func(o unstructured.Unstructured) bool { return nameOf(o) == name })
	}
	if m.names == nil {
		m.names = map[objectName]bool{}
	}
	m.objects, m.names[nameOf(u)] = append(m.objects, u), true
}

// objectName identifies an object, in whichever version of its kind it is.
type objectName struct{ kind, namespace, name string }

func nameOf(u unstructured.Unstructured) objectName {
	return objectName{u.GetKind(), u.GetNamespace(), u.GetName()}
}

// Config is the access of a client to the objects.
func (m *Manifests) Config() *rest.Config {
	return &rest.Config{Host: "http://manifests", Transport: m, QPS: -1}
}

// RoundTrip answers a request.
func (m *Manifests) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, failed := m.answer(r)
	status := http.StatusOK
	if failed != nil {
		failed.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		status, answer = int(failed.ErrStatus.Code), failed.ErrStatus
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("write the answer to %s: %w", r.URL.Path, err)
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

func (m *Manifests) answer(r *http.Request) (any, *apierrors.StatusError) {
	part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case r.URL.Path == "/apis":
		return m.groups(), nil
	case r.Method != http.MethodGet:
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: r.URL.Path}, r.Method)
	}
	version, rest := part[1], part[2:]
	if part[0] == "apis" && len(rest) > 0 {
		version, rest = part[1]+"/"+part[2], part[3:]
	}
	namespace := ""
	if len(rest) > 2 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) == 0 || len(rest) > 2 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.URL.Path}, "")
	}
	return m.find(version, namespace, rest[0], strings.Join(rest[1:], ""), r.URL.Query().Get("labelSelector"))
}

// find is an object, or the list of those of a kind.
func (m *Manifests) find(version, namespace, resource, name, selector string) (any, *apierrors.StatusError) {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	selects, err := labels.Parse(selector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	of := schema.GroupResource{Group: gv.Group, Resource: resource}
	kind, items := "", []any{}
	for _, o := range m.objects {
		plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(o.GetAPIVersion(), o.GetKind()))
		if plural.Resource != resource || plural.Group != gv.Group || plural.Version != gv.Version {
			continue
		}
		kind = o.GetKind()
		if namespace != "" && o.GetNamespace() != namespace || !selects.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		if name == o.GetName() {
			return o.Object, nil
		}
		items = append(items, o.Object)
	}
	switch {
	case m.whole && name != "":
		return nil, apierrors.NewNotFound(of, name)
	case name != "":
		return nil, unknownInFiles(of, " "+name)
	case kind == "" && !m.whole:
		return nil, unknownInFiles(of, "")
	}
	return map[string]any{"apiVersion": version, "kind": kind + "List", "metadata": map[string]any{}, "items": items}, nil
}

// unknownInFiles reports that the files do not have something that the cluster may have.
func unknownInFiles(of schema.GroupResource, name string) *apierrors.StatusError {
	failed := apierrors.NewForbidden(of, name, nil)
	failed.ErrStatus.Message = fmt.Sprintf("no %s%s in the files, but perhaps in the cluster", of, name)
	return failed
}

// runsKarpenter reports whether the files have a workload or a node of Karpenter: then the cluster serves its API.
func (m *Manifests) runsKarpenter() bool {
	is := karpenterProgram()
	return slices.ContainsFunc(m.objects, func(o unstructured.Unstructured) bool {
		if o.GetKind() == "Node" {
			return o.GetLabels()[poolLabel] != ""
		}
		var w struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if !slices.Contains([]Kind{Deployment, StatefulSet}, Kind(o.GetKind())) || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &w) != nil {
			return false
		}
		return is.in(Workload{Template: w.Spec.Template}) != nil
	})
}

// groups are those of the objects.
func (m *Manifests) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	var versions []schema.GroupVersion
	for _, o := range m.objects {
		versions = append(versions, o.GroupVersionKind().GroupVersion())
	}
	if !slices.ContainsFunc(versions, func(gv schema.GroupVersion) bool { return gv.Group == karpenterGroup }) && !m.whole && m.runsKarpenter() {
		versions = append(versions, schema.GroupVersion{Group: karpenterGroup, Version: "v1"})
	}
	for _, gv := range versions {
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		switch {
		case gv.Group == "":
		case i < 0:
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		case !slices.Contains(list.Groups[i].Versions, version):
			list.Groups[i].Versions = append(list.Groups[i].Versions, version)
		}
	}
	return list
}
