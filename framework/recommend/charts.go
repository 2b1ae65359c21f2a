package recommend

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed charts.yaml
var chartsFile []byte

// chart is what a chart makes of its values, as far as rules are about it.
type chart struct {
	Version string `yaml:"version"` // whose defaults count
	Source  string `yaml:"source"`  // of the defaults
	// Keys are those by one of which its values are known, such as settings.clusterName.
	Keys   []string       `yaml:"keys"`
	Values map[string]any `yaml:"values"` // the defaults
	// From is the value that a field of an object is made of.
	From    map[string]string `yaml:"from"`
	Objects string            `yaml:"objects"` // a template of YAML documents
}

var charts = sync.OnceValue(func() map[string]chart { return decoded[chart]("charts.yaml", chartsFile) })

// values are those of a chart in a file.
type values struct {
	chart  string
	from   source
	values map[string]any
}

// lookUp is a value by its keys, such as settings.clusterName.
func lookUp(in map[string]any, path string) (any, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(in, strings.Split(path, ".")...)
	return value, found && err == nil // no map on the way is as good as no value
}

// steps are the keys of such a path, for a document.
func steps(path string) (out []any) {
	for key := range strings.SplitSeq(path, ".") {
		out = append(out, key)
	}
	return out
}

// valuesIn are the paths at which objects of GitOps tools have the values of a chart, as fields or as a text.
var valuesIn = map[string][]string{
	"HelmRelease":    {"spec.values"},
	"Application":    {"spec.source.helm.valuesObject", "spec.source.helm.values"},
	"ApplicationSet": {"spec.template.spec.source.helm.valuesObject", "spec.template.spec.source.helm.values"},
	"HelmChart":      {"spec.valuesContent"},
}

// addValues adds the values of charts, also those of charts that depend on them, and those in objects of GitOps tools. Used
// reports whether there are any.
func (m *Manifests) addValues(from source, fields map[string]any, namespace string) (used bool, err error) {
	if kind, _ := fields["kind"].(string); kind != "" {
		for _, path := range valuesIn[kind] {
			value, _ := lookUp(fields, path)
			found, err := m.addValuesAt(source{in: from.in, path: append(slices.Clone(from.path), steps(path)...)}, value, namespace)
			if used = used || found; err != nil {
				return used, fmt.Errorf("%s: %w", path, err)
			}
		}
		several, _ := lookUp(fields, "spec.sources")
		sources, _ := several.([]any)
		for i, one := range sources { // of an Application
			of, _ := one.(map[string]any)
			for _, path := range []string{"helm.valuesObject", "helm.values"} {
				value, _ := lookUp(of, path)
				found, err := m.addValuesAt(source{in: from.in, path: append(append(slices.Clone(from.path), "spec", "sources", i), steps(path)...)}, value, namespace)
				if used = used || found; err != nil {
					return used, fmt.Errorf("spec.sources[%d].%s: %w", i, path, err)
				}
			}
		}
		return used, nil
	}
	delete(fields, "USER-SUPPLIED VALUES") // as helm get values prints before them
	delete(fields, "COMPUTED VALUES")
	all := charts()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		below, _ := fields[name].(map[string]any) // of a chart that depends on it
		for _, v := range []values{{name, from, fields}, {name, source{in: from.in, path: append(slices.Clone(from.path), name)}, below}} {
			if slices.ContainsFunc(all[name].Keys, func(key string) bool { _, has := lookUp(v.values, key); return has }) {
				m.values, used = append(m.values, v), true
			}
		}
	}
	return used, nil
}

// addValuesAt adds the values that an object has as fields or as a text.
func (m *Manifests) addValuesAt(at source, value any, namespace string) (used bool, err error) {
	fields, _ := value.(map[string]any)
	if text, ok := value.(string); ok {
		if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
			return false, err
		}
		at = source{in: at.in.within(text, at.path...)}
	}
	if len(fields) == 0 {
		return false, nil
	}
	return m.addValues(at, fields, namespace)
}

// render makes objects of the values, as their charts do, unless the files have what a chart makes.
func (m *Manifests) render(namespace string) error {
	given := slices.Clone(m.objects)
	known := map[string]program{"karpenter": karpenterProgram(), "aws-node-termination-handler": nodeTerminationHandler()}
	for _, v := range m.values {
		if slices.ContainsFunc(given, func(o object) bool {
			w, ok := asWorkload(o)
			p, isProgram := known[v.chart]
			return ok && (isProgram && p.in(w) != nil || !isProgram && w.isCoreDNS())
		}) {
			m.leaveOut("%s: values of the chart %s, as the files have what it makes", v.from.in.file, v.chart)
			continue
		}
		if err := m.make(v, namespace); err != nil {
			return fmt.Errorf("%s: values of the chart %s: %w", v.from.in.file, v.chart, err)
		}
	}
	return nil
}

// merged are values over the defaults, as Helm merges them: null removes a default.
func merged(defaults, given map[string]any) map[string]any {
	out := maps.Clone(defaults)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range given {
		below, isMap := value.(map[string]any)
		of, hasDefault := out[key].(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap && hasDefault:
			out[key] = merged(of, below)
		default:
			out[key] = value
		}
	}
	return out
}

func (m *Manifests) make(v values, namespace string) error {
	c := charts()[v.chart]
	var lines []linePlace
	parsed, err := template.New(v.chart).Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"tagged": func(image string, tag any) string {
			if tag == nil || tag == "" {
				return image
			}
			return fmt.Sprintf("%s:%v", image, tag)
		},
		"variables": variables,
		"corefile": func(values map[string]any) (text string) {
			text, lines = chartCorefile(values, v)
			return text
		},
	}).Parse(c.Objects)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, merged(c.Values, v.values)); err != nil {
		return err
	}
	for _, d := range documents(v.from.in.file, text.Bytes()) {
		var fields map[string]any
		if err := yaml.Unmarshal(d.text, &fields); err != nil {
			return err
		}
		if len(fields) == 0 {
			continue
		}
		o := object{unstructured.Unstructured{Object: fields}, source{in: v.from.in, path: v.from.path, made: map[string][]any{}}}
		for field, value := range c.From {
			o.from.made[field] = append(slices.Clone(v.from.path), steps(value)...)
		}
		if o.GetKind() == "ConfigMap" {
			o.from.corefile = lines
		}
		if err := typed(o.Unstructured); err != nil {
			return err
		}
		m.put(o, namespace)
	}
	m.assumed = append(m.assumed, fmt.Sprintf("values of the chart %s: what they leave out is as in its version %s (%s); helm template shows it for another version", v.chart, c.Version, c.Source))
	return nil
}

// variables are the environment variables of the values that are given.
func variables(values map[string]any, pairs ...string) map[string]string {
	out := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		if value, given := values[pair[1]]; given {
			out[pair[0]] = fmt.Sprint(value)
		}
	}
	return out
}

// chartCorefile is the Corefile that the chart coredns makes of its servers, and where each of its lines comes from.
func chartCorefile(all map[string]any, v values) (text string, lines []linePlace) {
	add := func(line string, at linePlace) {
		text += line + "\n"
		at.path = append(slices.Clone(v.from.path), at.path...)
		lines = append(lines, at)
	}
	extra, _ := all["extraConfig"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		parameters, _ := lookUp(extra, name+".parameters")
		add(strings.TrimSpace(name+" "+plain(parameters)), linePlace{path: []any{"extraConfig", name}})
	}
	servers, _ := all["servers"].([]any)
	for i, s := range servers {
		server, _ := s.(map[string]any)
		at := []any{"servers", i}
		var zones []string
		list, _ := server["zones"].([]any)
		for _, z := range list {
			zone, _ := z.(map[string]any)
			name := plain(zone["zone"])
			if name == "" {
				name = "."
			}
			zones = append(zones, plain(zone["scheme"])+name)
		}
		head := strings.Join(zones, " ")
		if head == "" {
			head = "."
		}
		if port := plain(server["port"]); port != "" {
			head += ":" + port
		}
		add(head+" {", linePlace{path: at})
		plugins, _ := server["plugins"].([]any)
		for n, p := range plugins {
			plugin, _ := p.(map[string]any)
			at := append(slices.Clone(at), "plugins", n)
			line := strings.TrimSpace(plain(plugin["name"]) + " " + plain(plugin["parameters"]))
			block := plain(plugin["configBlock"])
			if block == "" {
				add("    "+line, linePlace{path: at})
				continue
			}
			add("    "+line+" {", linePlace{path: at})
			for k, below := range strings.Split(strings.TrimRight(block, "\n"), "\n") {
				add("        "+below, linePlace{path: append(slices.Clone(at), "configBlock"), line: k})
			}
			add("    }", linePlace{path: at})
		}
		add("}", linePlace{path: at})
	}
	return text, lines
}

// plain is a value as text; empty for none.
func plain(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
