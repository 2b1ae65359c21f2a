package observe

import (
	_ "embed" // the rights
	"fmt"
	"io"
	"slices"
	"text/template"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/scenarios"
)

// User is who gets the rights that WriteRights prints.
const User = "spotdrill"

//go:embed rights.yaml.tmpl
var rightsText string

// rights are those of a client with these permissions, as rights.yaml.tmpl describes them.
type rights struct {
	Namespace   string
	User        string
	DNS         types.NamespacedName
	Conntrack   bool
	Permissions []scenarios.Permission
}

// Allowed reports whether a permission is among them.
func (r rights) Allowed(p scenarios.Permission) bool { return slices.Contains(r.Permissions, p) }

// WriteRights prints the namespace, and the rights that a client needs: in that namespace, to read nodes
// and the endpoints of DNS, and for the permissions. With conntrack, the namespace admits privileged pods.
func WriteRights(w io.Writer, namespace string, dns types.NamespacedName, conntrack bool, permissions []scenarios.Permission) error {
	text, err := template.New("rights.yaml.tmpl").Parse(rightsText)
	if err == nil {
		err = text.Execute(w, rights{namespace, User, dns, conntrack, permissions})
	}
	if err != nil {
		return fmt.Errorf("write the rights: %w", err)
	}
	return nil
}
