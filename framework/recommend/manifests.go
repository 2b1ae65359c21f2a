package recommend

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/files"
)

// corefileKey is the usual key and file name of a Corefile.
const corefileKey = "Corefile"

// stdin is the name of what comes from there.
const stdin = "stdin"

// mostManifests is how many bytes are read of all files together.
const mostManifests = 64 << 20

// Manifests are objects of a cluster in files, such as `kubectl get -o yaml`, `helm template` and kustomize write them,
// and what becomes such objects: a Corefile, values of a chart, the configuration of a kubelet. They answer as a
// read-only API server: a kind of which they have no object cannot be read, so that it is unknown whether
// the cluster has one.
type Manifests struct {
	objects  []object
	names    map[objectName]bool // of objects
	kubelets []Kubelet
	values   []values
	unused   map[string]int
	assumed  []string // for what they leave out
	// whole is set if the files have all that there is: other kinds then have no objects.
	whole bool
}

// object is one of a file, or one that is made of the values in it.
type object struct {
	unstructured.Unstructured
	from source
}

// source is where an object is.
type source struct {
	in   *document
	path []any
	// made are the values of the file that a field of the object is made of, by the path of the field; nil for an
	// object that is in the file itself.
	made map[string][]any
	// corefile has the place of each line of a Corefile that is made of values.
	corefile []linePlace
}

// linePlace is a line of the text at a path.
type linePlace struct {
	path []any
	line int // of that text, from 0
}

// ReadManifests reads files, and the .yaml, .yml, .json and Corefile files of folders and of the folders in them, as
// kubectl does with -R. Objects without a namespace get that one. Of several objects of one name, the last one counts.
// A file whose name begins with Corefile, or that is one, is the ConfigMap coredns. The name "-" is stdin. What is not
// judged is left out, and Unused names it. Errors name the file, and what is not read in it: text that is no YAML, fields
// of another type than the API has, too much text, and files with nothing that is judged.
func ReadManifests(in io.Reader, namespace string, paths ...string) (*Manifests, error) {
	m := &Manifests{}
	var errs []error
	left := int64(mostManifests)
	add := func(name string, text []byte, err error) {
		left -= int64(len(text))
		if errors.Is(err, files.ErrTooLarge) {
			err = fmt.Errorf("the files have more than %d MiB, which is all that is read: leave out what has nothing to do with DNS and nodes", mostManifests>>20)
		}
		if err == nil {
			err = m.add(name, text, namespace)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, path := range paths {
		if path == "-" {
			text, err := io.ReadAll(files.Limit(in, left))
			add(stdin, text, err)
			continue
		}
		found := 0
		err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() || at != path && !strings.HasPrefix(entry.Name(), corefileKey) && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(at)):
				return nil
			}
			found++
			if at == path {
				text, err := files.ReadFile(at, left)
				add(at, text, err)
				return nil
			}
			below, err := filepath.Rel(path, at)
			if err != nil {
				return err
			}
			text, err := files.Read(path, below, left)
			add(at, text, err)
			return nil
		})
		if err == nil && found == 0 {
			err = fmt.Errorf("%s: no file in this folder, or in those below it, ends with .yaml, .yml or .json, or begins with Corefile", path)
		}
		errs = append(errs, err)
	}
	err := errors.Join(append(errs, m.render(namespace))...)
	if err == nil && len(m.objects) == 0 && len(m.kubelets) == 0 {
		err = fmt.Errorf("%s: nothing of it is judged: %s", strings.Join(paths, ", "), cmp.Or(strings.Join(m.Unused(), "; "), "it is empty; did the command before it fail?"))
	}
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return m, nil
}

// Unused names what is in the files and not judged, with the number of each.
func (m *Manifests) Unused() (out []string) {
	for _, what := range slices.Sorted(maps.Keys(m.unused)) {
		if n := m.unused[what]; n > 1 {
			what += fmt.Sprintf(" (%d)", n)
		}
		out = append(out, what)
	}
	return out
}

func (m *Manifests) leaveOut(what string, args ...any) {
	if m.unused == nil {
		m.unused = map[string]int{}
	}
	m.unused[fmt.Sprintf(what, args...)]++
}

// add adds what a file has: a Corefile, or documents of YAML or JSON.
func (m *Manifests) add(name string, text []byte, namespace string) error {
	if strings.HasPrefix(filepath.Base(name), corefileKey) || isCorefile(text) {
		m.addCorefile(&document{file: name, line: 1, text: text}, namespace)
		return nil
	}
	if isUserData(text) {
		found, err := m.addKubeletText(&document{file: name, line: 1, text: text}, string(text))
		if !found && err == nil {
			m.leaveOut("%s: user data without a NodeConfig", name)
		}
		return err
	}
	for n, d := range documents(name, text) {
		if err := m.addDocument(d, n+1, namespace); err != nil {
			return fmt.Errorf("document %d: %w", n+1, err)
		}
	}
	return nil
}

// openBrace ends the line with the addresses of a server block.
var openBrace = regexp.MustCompile(`(?m)^\S.*\{\s*(#.*)?$`)

// isCorefile reports whether a text is a Corefile: CoreDNS reads it, and no YAML with fields is.
func isCorefile(text []byte) bool {
	const most = 1 << 20 // of a ConfigMap
	var fields map[string]any
	if len(text) > most || !openBrace.Match(text) || yaml.Unmarshal(text, &fields) == nil {
		return false
	}
	c, err := coredns.Parse(string(text))
	return err == nil && !c.Default
}

func (m *Manifests) addCorefile(d *document, namespace string) {
	lines := make([]linePlace, strings.Count(string(d.text), "\n")+1)
	for i := range lines {
		lines[i].line = i
	}
	m.put(object{unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "coredns"}, "data": map[string]any{corefileKey: string(d.text)},
	}}, source{in: d, made: map[string][]any{"data": nil}, corefile: lines}}, namespace)
}

func (m *Manifests) addDocument(d *document, n int, namespace string) error {
	var decoded any
	if json.Unmarshal(d.text, &decoded) != nil { // JSON is faster to read
		if err := yaml.Unmarshal(d.text, &decoded); err != nil {
			if strings.Contains(string(d.text), "{{") {
				err = fmt.Errorf("%w; it seems to be a template: give what helm template makes of it", err)
			}
			return err
		}
	}
	if decoded == nil {
		return nil
	}
	fields, _ := decoded.(map[string]any)
	return m.addFields(source{in: d}, fmt.Sprintf("%s: document %d", d.file, n), fields, namespace)
}

// addFields adds an object, the items of a list, or what becomes objects. Named is what it is called in what is left out.
func (m *Manifests) addFields(from source, named string, fields map[string]any, namespace string) error {
	u := unstructured.Unstructured{Object: fields}
	switch {
	case len(fields) == 0 || u.GetKind() == "" || u.GetAPIVersion() == "":
		used, err := m.addOthers(from, fields, namespace)
		if _, addOn := fields["corefile"]; !used && err == nil && addOn {
			m.leaveOut("%s has configuration values of the EKS add-on: --add-on-values reads them", named)
		} else if !used && err == nil {
			m.leaveOut("%s is no object of Kubernetes: it has no kind and apiVersion, and is neither values of the charts coredns, karpenter and aws-node-termination-handler nor a kubelet's configuration", named)
		}
		return err
	case !u.IsList():
		return m.addObject(object{u, from}, namespace)
	}
	items, _ := fields["items"].([]any)
	for i, item := range items {
		of, _ := item.(map[string]any)
		one := unstructured.Unstructured{Object: of}
		if kind, typed := strings.CutSuffix(u.GetKind(), "List"); typed && kind != "" && of != nil && one.GetKind() == "" { // as the API lists a kind
			one.SetKind(kind)
			one.SetAPIVersion(u.GetAPIVersion())
		}
		if one.GetKind() == "" {
			return errors.New("an item of the list has no kind")
		}
		if err := m.addObject(object{one, source{in: from.in, path: []any{"items", i}}}, namespace); err != nil {
			return err
		}
	}
	return nil
}

// judgedKinds are the kinds of objects that rules are about.
var judgedKinds = []string{
	"Node", "Pod", "Service", "EndpointSlice", "ConfigMap", "Deployment", "StatefulSet", "DaemonSet", "PodDisruptionBudget", "HorizontalPodAutoscaler",
	"ClusterRole", "ClusterRoleBinding", "NodePool", "NodeClaim", "EC2NodeClass", "AKSNodeClass", "Provisioner", "Machine", "AWSNodeTemplate",
}

func (m *Manifests) addObject(o object, namespace string) error {
	if err := typed(o.Unstructured); err != nil {
		return err
	}
	if _, hook := o.GetAnnotations()["helm.sh/hook"]; hook {
		m.leaveOut("hook %s of a chart", o.GetKind())
		return nil
	}
	if w, ok := asWorkload(o); ok && len(w.Template.Spec.Containers) == 0 {
		m.leaveOut("%s %s without containers, such as a patch of kustomize: give what kubectl kustomize prints", o.GetKind(), o.GetName())
		return nil
	}
	used, err := m.addOthers(o.from, o.Object, namespace)
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if slices.Contains(judgedKinds, o.GetKind()) {
		m.put(o, namespace)
	} else if !used {
		m.leaveOut("%s", o.GetKind())
	}
	return nil
}

// addOthers adds what becomes objects, or is the configuration of a kubelet. Used reports whether it is either.
func (m *Manifests) addOthers(from source, fields map[string]any, namespace string) (used bool, err error) {
	configured, err := m.addKubelet(from, fields)
	if err != nil || configured {
		return configured, err
	}
	return m.addValues(from, fields, namespace)
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

// put adds an object in place of the one of its name.
func (m *Manifests) put(o object, namespace string) {
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	if name := nameOf(o.Unstructured); m.names[name] { // only then are all looked at: there can be many
		m.objects = slices.DeleteFunc(m.objects, func(o object) bool { return nameOf(o.Unstructured) == name })
	}
	if m.names == nil {
		m.names = map[objectName]bool{}
	}
	m.objects, m.names[nameOf(o.Unstructured)] = append(m.objects, o), true
}

// objectName identifies an object, in whichever version of its kind it is.
type objectName struct{ kind, namespace, name string }

func nameOf(u unstructured.Unstructured) objectName {
	return objectName{u.GetKind(), u.GetNamespace(), u.GetName()}
}

// String is the object in words: Deployment kube-system/coredns.
func (n objectName) String() string { return n.kind + " " + n.namespace + "/" + n.name }

// namespaceOf is the namespace of the CoreDNS in the files: that one, unless only another one has a workload of
// CoreDNS, as charts are installed into any.
func (m *Manifests) namespaceOf(namespace string) string {
	var of []string
	for _, o := range m.objects {
		w, ok := asWorkload(o)
		if ok && w.isCoreDNS() && !slices.Contains(of, o.GetNamespace()) {
			of = append(of, o.GetNamespace())
		}
	}
	if len(of) == 1 {
		return of[0]
	}
	return namespace
}
