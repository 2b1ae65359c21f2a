package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// apiCall is a request to the API server, in the terms of RBAC.
type apiCall struct {
	verb      string
	resource  string // group/resource or group/resource/subresource, or a URL's path
	namespace string
	name      string
	client    string   // address without port
	marks     []string // that a write to a node sets, see history.MarkUnschedulable
}

// parseAPICall reads the call from a request as the API server itself does. Nothing of the
// query but what determines the verb and the name is kept, and no header.
func parseAPICall(r *http.Request) apiCall {
	factory := apirequest.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := factory.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		info = &apirequest.RequestInfo{Verb: strings.ToLower(r.Method)}
	}
	c := apiCall{verb: info.Verb, resource: info.APIGroup + "/" + info.Resource, namespace: info.Namespace, name: info.Name}
	switch {
	case info.Resource == "":
		c.resource = r.URL.Path
	case info.Subresource != "":
		c.resource += "/" + info.Subresource
	}
	c.client, _, _ = net.SplitHostPort(r.RemoteAddr)
	return c
}

func (c apiCall) detail() history.Detail {
	return func(e *history.Event) {
		e.Action, e.Resource, e.IP = c.verb, c.resource, c.client
		object := strings.TrimPrefix(c.namespace+"/"+c.name, "/")
		switch group, _, _ := strings.Cut(strings.TrimPrefix(c.resource, "/"), "/"); {
		case c.name == "":
			e.Object = c.namespace
		case group == "nodes":
			e.Node = c.name
		case group == "pods":
			e.Pod = object
		default:
			e.Object = object
		}
	}
}

// writesNode reports whether the call changes a Node itself, and so perhaps its marks.
func (c apiCall) writesNode() bool {
	return c.resource == history.NodesResource && slices.Contains([]string{"patch", "update"}, c.verb)
}

func marksIn(contentType string, body []byte) []string {
	node, err := nodeIn(contentType, body)
	if err != nil {
		return []string{history.MarksUnknown}
	}
	var marks []string
	if node.Spec.Unschedulable {
		marks = append(marks, history.MarkUnschedulable)
	}
	for _, t := range node.Spec.Taints {
		// A scheduler may ignore the other effect, PreferNoSchedule.
		if t.Patch != "delete" && (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) {
			marks = append(marks, t.Key)
		}
	}
	return marks
}

// markedNode is what marks of a Node look like in an object and in a patch.
type markedNode struct {
	Spec struct {
		Unschedulable bool
		Taints        []patchedTaint
	}
}

type patchedTaint struct {
	corev1.Taint
	Patch string `json:"$patch"` // of a strategic merge patch
}

func nodeIn(contentType string, body []byte) (node markedNode, err error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return node, fmt.Errorf("read the content type: %w", err)
	}
	switch mediaType {
	case "application/json-patch+json":
		return patchedNode(body)
	case "application/vnd.kubernetes.protobuf":
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return node, fmt.Errorf("decode the object: %w", err)
		}
		read, ok := obj.(*corev1.Node)
		if !ok {
			return node, fmt.Errorf("the object is a %T", obj)
		}
		node.Spec.Unschedulable = read.Spec.Unschedulable
		for _, t := range read.Spec.Taints {
			node.Spec.Taints = append(node.Spec.Taints, patchedTaint{Taint: t})
		}
		return node, nil
	case "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml":
		err := yaml.Unmarshal(body, &node) // YAML includes JSON
		return node, err
	}
	return node, fmt.Errorf("content type %s", mediaType)
}

func patchedNode(body []byte) (node markedNode, err error) {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return node, fmt.Errorf("read the JSON patch: %w", err)
	}
	for _, o := range operations {
		if o.Op != "add" && o.Op != "replace" {
			continue
		}
		switch {
		case o.Path == "/spec/unschedulable":
			err = json.Unmarshal(o.Value, &node.Spec.Unschedulable)
		case o.Path == "/spec/taints":
			err = json.Unmarshal(o.Value, &node.Spec.Taints)
		case strings.HasPrefix(o.Path, "/spec/taints/") && strings.Count(o.Path, "/") == 3:
			var t patchedTaint
			err = json.Unmarshal(o.Value, &t)
			node.Spec.Taints = append(node.Spec.Taints, t)
		}
		if err != nil {
			return node, fmt.Errorf("read %s of the JSON patch: %w", o.Path, err)
		}
	}
	return node, nil
}

// hitsAPI reports whether a fault on the API server hits the call. Only a watch can be ended or stale.
func hitsAPI(f fault.Fault, c apiCall) bool {
	switch {
	case f.On != history.OnAPI:
		return false
	case f.Type == history.Stale:
		return c.verb == "watch" && (len(f.Resources) == 0 || slices.Contains(f.Resources, c.kubectlName()))
	}
	if hits, decided := f.Hits(c.verb, c.kubectlName(), c.node()); decided {
		return hits
	}
	return (len(f.Verbs) == 0 || slices.Contains(f.Verbs, c.verb)) &&
		(len(f.Resources) == 0 || slices.Contains(f.Resources, c.kubectlName())) &&
		(f.Type != history.WatchEnded || c.verb == "watch")
}

// node is the Node object that the call is about, or "".
func (c apiCall) node() string {
	if group, _, _ := strings.Cut(strings.TrimPrefix(c.resource, "/"), "/"); group == "nodes" {
		return c.name
	}
	return ""
}

func (c apiCall) kubectlName() string { return history.KubectlName(c.resource) }

// take returns the first fault of these types that hits the call; nil if there is none.
func (a *API) take(c apiCall, types ...history.FaultType) *fault.Active {
	return a.faults.Take(func(f fault.Fault) bool { return slices.Contains(types, f.Type) && hitsAPI(f, c) })
}

// apiRefusal is the answer of an API server that refuses the call for this reason.
func apiRefusal(f fault.Fault, c apiCall) metav1.Status {
	group, resource, _ := strings.Cut(c.resource, "/")
	resource, _, _ = strings.Cut(resource, "/")
	of := schema.GroupResource{Group: group, Resource: resource}
	switch f.Type {
	case history.Conflict:
		return apierrors.NewConflict(of, c.name, errors.New("the object has been modified; please apply your changes to the latest version and try again")).Status()
	case history.Denied:
		return deniedByWebhook
	case history.Throttle:
		return apierrors.NewTooManyRequests("too many requests, please try again later", int(f.RetryAfter.D().Seconds())).Status()
	}
	if f.Status == http.StatusServiceUnavailable {
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request").Status()
	}
	return apierrors.NewInternalError(errors.New("etcdserver: request timed out")).Status()
}

// deniedByWebhook is what an API server answers if an admission webhook refuses a call with
// the status that most of them have.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response
var deniedByWebhook = metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
	Message: `admission webhook "evictions.spotdrill.test" denied the request: the operator of this pod moves it first`,
}

// writeStatus answers with a Status object, in JSON, which every client must read.
func writeStatus(w http.ResponseWriter, s metav1.Status) {
	s.Kind, s.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(s.Code))
	_ = json.NewEncoder(w).Encode(s) // the client may be gone
}
