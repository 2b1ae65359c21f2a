package observe

import (
	_ "embed" // the rights
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/google/go-containerregistry/pkg/name"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ParseSubject reads who gets rights: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME.
func ParseSubject(text string) (rbacv1.Subject, error) {
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
	case kind == "user":
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, nil
	case kind == "group":
		return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}, nil
	case kind == "serviceaccount":
		namespace, account, _ := strings.Cut(name, "/")
		if len(validation.IsDNS1123Subdomain(account)) > 0 {
			return rbacv1.Subject{}, fmt.Errorf("%q names no ServiceAccount: want serviceaccount:NAMESPACE/NAME, such as serviceaccount:ci/runner", text)
		}
		if err := namespaceName(namespace); err != nil {
			return rbacv1.Subject{}, fmt.Errorf("%q: the namespace is %w", text, err)
		}
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}, nil
	}
	return rbacv1.Subject{}, fmt.Errorf("%q is no subject: want user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME", text)
}

// namespaceName returns an error for a name that no namespace can have.
func namespaceName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("%q: want lower-case letters, digits and -, at most %d, as Kubernetes requires of a namespace", name, validation.DNS1123LabelMaxLength)
	}
	return nil
}

// serviceName returns an error for a name that no Service can have.
func serviceName(service types.NamespacedName) error {
	if len(validation.IsDNS1035Label(service.Name)) > 0 {
		return fmt.Errorf("%q: want lower-case letters, digits and -, beginning with a letter, as Kubernetes requires of a Service", service.Name)
	}
	return namespaceName(service.Namespace)
}

// validImage returns an error for what the kubelet would refuse with InvalidImageName; none for an
// empty one.
func validImage(reference string) error {
	if reference == "" {
		return nil
	}
	_, err := name.ParseReference(reference)
	return err
}

//go:embed rights.yaml.tmpl
var rightsText string

// Rights are what a client needs: the namespace, to read nodes and the endpoints of DNS, and what the
// permissions need.
type Rights struct {
	// Subject gets them.
	Subject rbacv1.Subject
	// Namespace is that of the probers. With Conntrack, it admits privileged pods.
	Namespace string
	Conntrack bool
	// DNS is the Service of CoreDNS.
	DNS types.NamespacedName
	// Application adds what finds an application's pods: its Service, endpoints and workloads.
	Application bool
	// Permissions are what drills may do; none to observe only.
	Permissions []scenarios.Permission
}

// Allowed reports whether a permission is among them.
func (r Rights) Allowed(p scenarios.Permission) bool { return slices.Contains(r.Permissions, p) }

// To is the subject as YAML.
func (r Rights) To() (string, error) {
	text, err := json.Marshal(r.Subject)
	return string(text), err
}

// Write prints the rights as manifests. Names that Kubernetes refuses are an error.
func (r Rights) Write(w io.Writer) error {
	err := errors.Join(wrap.Errorf(namespaceName(r.Namespace), "--namespace"), wrap.Errorf(serviceName(r.DNS), "--service"))
	if err != nil {
		return err
	}
	text, err := template.New("rights.yaml.tmpl").Parse(rightsText)
	if err == nil {
		err = text.Execute(w, r)
	}
	return wrap.Errorf(err, "write the rights")
}
