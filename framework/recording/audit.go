package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// AuditMark is a position in the API server's audit log.
type AuditMark struct{ offset int64 }

// AuditLog is the API server's audit log, in the container of the control plane.
type AuditLog struct {
	Engine       *engine.Engine
	ControlPlane string
}

// Mark returns the current end of the log.
func (l AuditLog) Mark(ctx context.Context) (AuditMark, error) {
	out, err := l.Engine.Exec(ctx, l.ControlPlane, nil, "stat", "-c", "%s", kind.AuditLog)
	if err != nil {
		return AuditMark{}, fmt.Errorf("read the size of the audit log: %w", err)
	}
	var mark AuditMark
	_, err = fmt.Sscan(out, &mark.offset)
	return mark, wrap.Errorf(err, "parse the size of the audit log from %q", out)
}

// Requests are the requests of a user that the API server allowed.
type Requests struct {
	User    string
	Used    []history.Event // one RBACUsed for each verb and resource
	Changes []Change
	// Whole reports whether all changes are there: none was rotated out of the log, and
	// the audit policy has the user.
	Whole bool
}

// Change is a successful patch, update or deletion of an object, or eviction of a pod.
type Change struct {
	Asked           time.Time // when the API server received it, in microseconds
	Verb            string    // of RBAC, or Evict
	Of              schema.GroupResource
	Namespace, Name string
	By              string // the pod that requested it, without its namespace; empty if its token does not show
}

// Evict is the verb of a Change that is an eviction.
const Evict = "evict"

// unaudited is how the users begin whose requests kind/audit-policy.yaml leaves out.
const unaudited = "system:serviceaccount:kube-system:"

// Since returns the requests of a user since the mark. A log that was rotated in the
// meantime is read from its beginning.
func (l AuditLog) Since(ctx context.Context, mark AuditMark, user string) (Requests, error) {
	const tail = `if test "$(stat -c %s "$1")" -ge "$2"; then echo whole; else echo rotated; set -- "$1" 0; fi; tail -c +"$(($2 + 1))" "$1"`
	out, err := l.Engine.Exec(ctx, l.ControlPlane, nil, "sh", "-ec", tail, "sh", kind.AuditLog, fmt.Sprint(mark.offset))
	if err != nil {
		return Requests{User: user}, fmt.Errorf("read the audit log: %w", err)
	}
	state, log, _ := strings.Cut(out, "\n")
	requests, err := requestsOf(strings.NewReader(log), user)
	requests.User = user
	requests.Whole = err == nil && state == "whole" && !strings.HasPrefix(user, unaudited)
	return requests, err
}

// request is an entry of the audit log.
type request auditv1.Event

// requestsOf reads the lines of an audit log. The last one may be incomplete.
func requestsOf(log io.Reader, user string) (Requests, error) {
	type asked struct{ verb, of string }
	var order []asked
	count := map[asked]float64{}
	var out Requests
	for decoder := json.NewDecoder(log); ; {
		var r request
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return Requests{}, fmt.Errorf("read the audit log: %w", err)
		}
		// A watch has an entry when it starts and another, minutes later, when it ends.
		if (r.Stage == auditv1.StageResponseStarted) != (r.Verb == "watch") || r.User.Username != user || r.Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		a := asked{r.Verb, r.of()}
		count[a]++
		if count[a] == 1 {
			order = append(order, a)
		}
		if verb := r.changed(); verb != "" {
			out.Changes = append(out.Changes, Change{r.RequestReceivedTimestamp.UTC(), verb, schema.GroupResource{Group: r.ObjectRef.APIGroup, Resource: r.ObjectRef.Resource}, r.ObjectRef.Namespace, r.ObjectRef.Name, r.pod()})
		}
	}
	for _, a := range order {
		out.Used = append(out.Used, history.NewRBACUsed(user, a.verb, a.of, history.With(history.Numbers{history.Requests: count[a]})))
	}
	return out, nil
}

// podName is where a token that is bound to a pod names it.
const podName = "authentication.kubernetes.io/pod-name"

// pod is the pod whose token the request came with, or "".
func (r request) pod() string {
	if names := r.User.Extra[podName]; len(names) == 1 {
		return names[0]
	}
	return ""
}

// changed is the verb by which the request changed an existing object; empty if it did
// not.
func (r request) changed() string {
	switch {
	case r.ObjectRef == nil || r.ResponseStatus != nil && r.ResponseStatus.Code >= http.StatusBadRequest:
		return ""
	case r.Verb == "create" && r.ObjectRef.Resource == "pods" && r.ObjectRef.Subresource == "eviction":
		return Evict
	case slices.Contains([]string{"patch", "update", "delete", "deletecollection"}, r.Verb):
		return r.Verb
	}
	return ""
}

// of returns what was requested, in the terms of RBAC: group/resource, or a URL.
func (r request) of() string {
	if r.ObjectRef == nil {
		url, _, _ := strings.Cut(r.RequestURI, "?")
		return url
	}
	of := r.ObjectRef.APIGroup + "/" + r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		of += "/" + r.ObjectRef.Subresource
	}
	return of
}
