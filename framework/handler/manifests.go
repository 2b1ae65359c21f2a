package handler

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/e2e-framework/klient/decoder"
)

// Settings is what a handler must be told of the system that it runs in. Each
// field but the keys stands behind a placeholder: see Placeholders.
type Settings struct {
	QueueURL    string
	QueueName   string
	Endpoint    string // of SQS, as a pod reaches it
	Region      string
	ClusterName string
	Image       string // the product's own, for descriptions with built: self
	Namespace   string // DefaultNamespace where it is empty

	// AccessKeyID and SecretAccessKey go into the Secret; "test" where empty,
	// which is what LocalStack takes.
	AccessKeyID     string
	SecretAccessKey string
}

// DefaultNamespace is where a handler is installed.
const DefaultNamespace = "spotdrill-handler"

// CredentialsSecret is the Secret that Install makes in the namespace, with the
// keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: use it with envFrom.
const CredentialsSecret = "aws-credentials"

// Placeholders lists what manifests may hold, as ${NAME}.
func Placeholders() []string {
	return []string{"QUEUE_URL", "QUEUE_NAME", "AWS_ENDPOINT", "AWS_REGION", "CLUSTER_NAME", "IMAGE", "NAMESPACE"}
}

func (s Settings) value(placeholder, image string) string {
	switch placeholder {
	case "QUEUE_URL":
		return s.QueueURL
	case "QUEUE_NAME":
		return s.QueueName
	case "AWS_ENDPOINT":
		return s.Endpoint
	case "AWS_REGION":
		return s.Region
	case "CLUSTER_NAME":
		return s.ClusterName
	case "IMAGE":
		return image
	default: // NAMESPACE: split has refused all others
		return s.namespace()
	}
}

func (s Settings) namespace() string {
	if s.Namespace == "" {
		return DefaultNamespace
	}
	return s.Namespace
}

// fill replaces every placeholder in text.
func (d Description) fill(text string, s Settings) string {
	image := d.Image.Ref
	if d.Image.Built == builtSelf {
		image = s.Image
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		return s.value(placeholder.FindStringSubmatch(found)[1], image)
	})
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_]*)\}`)

// document is one YAML document of a manifest, with its placeholders.
type document struct {
	file string
	line int // of its first line
	text string
}

// split cuts a manifest into its documents, leaving out empty ones, and reports
// every line with a placeholder that does not exist.
func split(file, text string) ([]document, error) {
	var out []document
	var errs []error
	current := document{file: file, line: 1}
	add := func() {
		if content(current.text) {
			out = append(out, current)
		}
	}
	for i, line := range strings.SplitAfter(text, "\n") {
		if line == "---" || strings.HasPrefix(line, "---\n") || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "---\r") {
			add()
			current = document{file: file, line: i + 2}
			continue
		}
		current.text += line
		for _, found := range placeholder.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(Placeholders(), found[1]) {
				errs = append(errs, fmt.Errorf("%s:%d: unknown placeholder %s; allowed: %s", file, i+1, found[0], strings.Join(Placeholders(), ", ")))
			}
		}
	}
	add()
	for _, doc := range out {
		if _, err := doc.decode(doc.text); err != nil && len(errs) == 0 {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// content is false for a document of blank lines and comments.
func content(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// decode makes the object without knowing its type, so that the API server sees
// every field as it was written and can refuse a misspelt one.
func (doc document) decode(filled string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := decoder.DecodeString(filled, obj); err != nil {
		return nil, fmt.Errorf("%s:%d: decode the document: %w", doc.file, doc.line, err)
	}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
		return nil, fmt.Errorf("%s:%d: the document wants apiVersion, kind and metadata.name", doc.file, doc.line)
	}
	return obj, nil
}

// objects is all that is to be installed, in order: namespaces, definitions, the
// credentials, then the rest as the manifests have it.
func (d Description) objects(s Settings) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, doc := range d.documents {
		obj, err := doc.decode(d.fill(doc.text, s))
		if err != nil {
			return nil, err
		}
		out = append(out, obj)
	}
	if len(out) == 0 {
		return nil, nil
	}
	own := []runtime.Object{&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: CredentialsSecret, Namespace: s.namespace()},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": orTest(s.AccessKeyID), "AWS_SECRET_ACCESS_KEY": orTest(s.SecretAccessKey)},
	}}
	if !slices.ContainsFunc(out, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == s.namespace()
	}) {
		own = append(own, &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: s.namespace()},
		})
	}
	for _, o := range own {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", o, err)
		}
		out = slices.Insert(out, 0, &unstructured.Unstructured{Object: fields})
	}
	for _, obj := range out {
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[ownerLabel] = d.Name
		obj.SetLabels(labels)
	}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return out, nil
}

// ownerLabel marks every object that Install made: only those are ever deleted.
const ownerLabel = "spotdrill.dev/handler"

// rank is the order of kinds that others need.
func rank(obj *unstructured.Unstructured) int {
	switch obj.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	default:
		return 2
	}
}

func orTest(s string) string {
	if s == "" {
		return "test"
	}
	return s
}
