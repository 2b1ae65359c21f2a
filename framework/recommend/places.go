package recommend

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlnodes "go.yaml.in/yaml/v4"
)

// Place is where the files have the value that a finding is about.
type Place struct {
	File string `json:"file"` // as it was given, or stdin
	// Line is from 1; 0 if the file is too large for lines to be looked for.
	Line int `json:"line,omitempty"`
}

// String is the place as compilers print it: values.yaml:12.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// located are the findings with their places, if they are about files.
func (a Advice) located(found []Finding) []Finding {
	if a.dns.Manifests == nil {
		return found
	}
	for i := range found {
		if found[i].At == nil {
			found[i].At = a.placeOf(found[i])
		}
	}
	return found
}

// placeOf is the first of the places of a rule that the files have; nil if they have none.
func (a Advice) placeOf(f Finding) *Place {
	for _, at := range Rules()[f.Rule].At {
		what, path, _ := strings.Cut(at, " ")
		if p := a.find(f, what, path); p != nil {
			return p
		}
	}
	return nil
}

// find is the place of a value: of what object, and the path in it.
func (a Advice) find(f Finding, what, path string) *Place {
	d, m := a.dns, a.dns.Manifests
	const pod = "spec.template.spec"
	in := func(w *Workload, parts ...string) *Place {
		if w == nil || w.Kind == "" {
			return nil
		}
		return m.at(objectName{string(w.Kind), w.Namespace, w.Name}, strings.Trim(strings.Join(parts, "."), "."))
	}
	container := func(name string) string { return pod + ".containers." + name }
	switch what {
	case "corefile":
		return a.inCorefile(path)
	case "workload":
		return in(&d.Workload, path)
	case "pod":
		return in(&d.Workload, pod, path)
	case "container":
		if c := d.container(); c != nil {
			return in(&d.Workload, container(c.Name), path)
		}
	case "budget":
		if of := d.budgetsOfPods(); len(of) > 0 {
			return m.at(objectName{"PodDisruptionBudget", of[len(of)-1].Namespace, of[len(of)-1].Name}, path)
		}
	case "scaler":
		if name, ok := strings.CutPrefix(d.Scaler, "HorizontalPodAutoscaler "); ok {
			return m.at(objectName{"HorizontalPodAutoscaler", d.Workload.Namespace, name}, path)
		}
	case "karpenter":
		return in(d.Karpenter.Workload, path)
	case "karpenter-container":
		if k := d.Karpenter; k.Workload != nil {
			return in(k.Workload, container(k.container().Name), path)
		}
	case "settings":
		if k := d.Karpenter; k.Workload != nil {
			return m.at(objectName{"ConfigMap", k.Workload.Namespace, formerSettings}, path)
		}
	case "pools":
		return m.lastOf("NodePool")
	case "removed":
		for _, r := range d.Karpenter.Removed {
			if p := m.lastOf(r.Kind); p != nil {
				return p
			}
		}
	case "handler", "handler-container":
		return m.inHandler(f.handler, path)
	case "kubelet":
		if f.kubelet != nil {
			at := append(slices.Clone(f.kubelet.path), path)
			if byPriority := append(slices.Clone(f.kubelet.path), "shutdownGracePeriodByPodPriority"); f.kubelet.has(byPriority) {
				at = byPriority
			}
			return f.kubelet.place(at)
		}
	}
	return nil
}

// refusedAt is the place of an error in a Corefile.
var refusedAt = regexp.MustCompile(`^(?:(\S+), )?line (\d+): `)

// inCorefile is the place of a plugin or of the lameduck, or of the error with which CoreDNS does not start.
func (a Advice) inCorefile(what string) *Place {
	d := a.dns
	if d.CorefileObject == nil {
		return nil
	}
	file, line := a.corefile.Place(what)
	if what == "error" {
		file, line = "", 1
		if m := refusedAt.FindStringSubmatch(a.corefile.Refused + a.corefile.Doubt); m != nil {
			file = m[1]
			line, _ = strconv.Atoi(m[2]) // digits
		}
	}
	of, key := d.CorefileObject, d.CorefileKey
	if file != "" {
		mounted, err := d.mounted(file)
		if err != nil || mounted.ConfigMap == nil {
			return nil
		}
		of, key = mounted.ConfigMap, mounted.Key
	}
	return d.Manifests.inText(objectName{"ConfigMap", of.Namespace, of.Name}, key, line)
}

// at is the place of a value of an object, or of the deepest part of its path that there is; nil if the files do not have
// the object.
func (m *Manifests) at(name objectName, path string) *Place {
	i := slices.IndexFunc(m.objects, func(o object) bool { return nameOf(o.Unstructured) == name })
	if i < 0 {
		return nil
	}
	from := m.objects[i].from
	var keys []string
	if path != "" {
		keys = strings.Split(path, ".")
	}
	if from.made == nil {
		return from.place(append(slices.Clone(from.path), asSteps(keys)...))
	}
	for n := len(keys); n > 0; n-- {
		if value, ok := from.made[strings.Join(keys[:n], ".")]; ok {
			return from.place(append(slices.Clone(value), asSteps(keys[n:])...))
		}
	}
	return from.place(from.path)
}

func asSteps(keys []string) (out []any) {
	for _, key := range keys {
		out = append(out, key)
	}
	return out
}

func (s source) place(path []any) *Place {
	if len(s.in.text) > mostLines {
		return &Place{File: s.in.file}
	}
	return &Place{s.in.file, s.in.lineOf(path...)}
}

// has reports whether the file has a value.
func (s source) has(path []any) bool {
	_, _, whole := s.in.node(path)
	return whole
}

// inText is the place of a line of a text in a ConfigMap.
func (m *Manifests) inText(name objectName, key string, line int) *Place {
	i := slices.IndexFunc(m.objects, func(o object) bool { return nameOf(o.Unstructured) == name })
	if i < 0 {
		return nil
	}
	from := m.objects[i].from
	path := append(slices.Clone(from.path), "data", key)
	if from.made != nil {
		if line < 1 || line > len(from.corefile) {
			return from.place(from.path)
		}
		of := from.corefile[line-1]
		path, line = of.path, of.line+1
		if len(path) == 0 { // a file that is a Corefile
			return &Place{from.in.file, from.in.fileLine(line)}
		}
	}
	if len(from.in.text) > mostLines {
		return &Place{File: from.in.file}
	}
	node, at, whole := from.in.node(path)
	if whole && node.Style&yamlnodes.LiteralStyle != 0 {
		at = node.Line + line
	}
	return &Place{from.in.file, from.in.fileLine(at)}
}

// inHandler is the place of a value of the container of a handler, or of the handler itself.
func (m *Manifests) inHandler(named, path string) *Place {
	for _, o := range m.objects {
		w, ok := asWorkload(o)
		if name := nameOf(o.Unstructured); ok && name.String() == named {
			if c := nodeTerminationHandler().in(w); c != nil && path != "" {
				path = "spec.template.spec.containers." + c.Name + "." + path
			}
			return m.at(name, path)
		}
	}
	return nil
}

// lastOf is the place of the last object of a kind.
func (m *Manifests) lastOf(kind string) *Place {
	for _, o := range slices.Backward(m.objects) {
		if o.GetKind() == kind {
			return o.from.place(o.from.path)
		}
	}
	return nil
}
