package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// hitsAPI reports whether a fault on the API server hits the call. Only a watch can be ended.
func hitsAPI(f fault.Fault, c apiCall) bool {
	return f.On == history.OnAPI &&
		(len(f.Verbs) == 0 || slices.Contains(f.Verbs, c.verb)) &&
		(len(f.Resources) == 0 || slices.Contains(f.Resources, c.kubectlName())) &&
		(f.Type != history.WatchEnded || c.verb == "watch")
}

// kubectlName is the resource as in kubectl: resource.group/subresource.
func (c apiCall) kubectlName() string {
	group, rest, _ := strings.Cut(c.resource, "/")
	resource, subresource, sub := strings.Cut(rest, "/")
	if group != "" {
		resource += "." + group
	}
	if sub {
		resource += "/" + subresource
	}
	return resource
}

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
