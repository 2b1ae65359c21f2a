package recommend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

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
	if len(rest) == 4 && rest[0] == "nodes" && rest[3] == "configz" {
		if !m.whole {
			return nil, unknownInFiles(schema.GroupResource{Resource: "nodes/proxy"}, " "+rest[1])
		}
		return map[string]any{"kubeletconfig": map[string]any{}}, nil
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
	return slices.ContainsFunc(m.objects, func(o object) bool {
		if o.GetKind() == "Node" {
			return o.GetLabels()[poolLabel] != ""
		}
		w, ok := asWorkload(o)
		return ok && w.Kind != DaemonSet && is.in(w) != nil
	})
}

// asWorkload is an object as a workload, as far as its pods are concerned.
func asWorkload(o object) (Workload, bool) {
	var w struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	kind := Kind(o.GetKind())
	if !slices.Contains([]Kind{Deployment, StatefulSet, DaemonSet}, kind) || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &w) != nil {
		return Workload{}, false
	}
	return Workload{Kind: kind, ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels()}, Template: w.Spec.Template}, true
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
