package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// PlatformKind is the kind in the header of a platform's file.
const PlatformKind = "Platform"

// Platform is a preset: the values that a distribution of Kubernetes has by default. They take the place of kubeadm's in
// a scenario whose file does not set them.
type Platform struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is the file's name without .yaml.
	Name string `yaml:"name"`
	// Title is the platform in a few words.
	Title string `yaml:"title"`
	// Versions are those that the platform runs. They are only shown: a drill runs the versions of its cluster.
	Versions Versions `yaml:"versions"`
	// CoreDNS is how the platform runs CoreDNS. What is left out is as kubeadm sets it. The placement is the scenario's.
	CoreDNS coredns.Settings `yaml:"coredns,omitempty"`
	// KubeProxy is how the platform runs kube-proxy.
	KubeProxy KubeProxy `yaml:"kubeProxy,omitempty"`
	// Shutdown is the graceful shutdown of a node; left out, there is none.
	Shutdown Shutdown `yaml:"shutdown,omitempty"`
	// NotHere is what a drill with the preset does not have of the platform, one sentence each.
	NotHere []string `yaml:"notHere,omitempty"`
	// Sources are the URLs of the pages that the values come from, by field. A field's URL is also that of all fields below it that
	// have none of their own.
	Sources map[string]string `yaml:"sources"`

	text []byte
}

// Versions are those of a platform's parts, in the platform's own words.
type Versions struct {
	// Kubernetes is a version, or a range of them.
	Kubernetes string `yaml:"kubernetes,omitempty"`
	// CoreDNS is the version of CoreDNS, with the platform's own suffix.
	CoreDNS string `yaml:"coredns,omitempty"`
}

// KubeProxy is how a platform runs kube-proxy.
type KubeProxy struct {
	// Mode is iptables, nftables or ipvs; left out, iptables.
	Mode history.ProxyMode `yaml:"mode,omitempty"`
	// MinSyncPeriod is the shortest time between two updates of the node's rules; left out, 1s. Kubernetes
	// takes 0s for 1s.
	MinSyncPeriod strict.Duration `yaml:"minSyncPeriod,omitempty"`
}

// Shutdown is how a platform's kubelets shut a node down.
type Shutdown struct {
	// GracePeriod is the kubelet's shutdownGracePeriod, in whole seconds.
	GracePeriod strict.Duration `yaml:"gracePeriod,omitempty"`
	// CriticalPods is the part of it for critical pods, such as CoreDNS, in whole seconds.
	CriticalPods strict.Duration `yaml:"criticalPods,omitempty"`
}

//go:embed platforms
var platforms embed.FS

func platformFiles() []string {
	found, _ := fs.Glob(platforms, "platforms/*.yaml") // the pattern is valid
	return found
}

// Platforms are the names of all presets.
func Platforms() (names []string) {
	for _, file := range platformFiles() {
		names = append(names, nameOf(file))
	}
	return names
}

// PlatformNamed returns a preset. The error for an unknown name lists all.
func PlatformNamed(name string) (*Platform, error) {
	file := "platforms/" + name + ".yaml"
	data, err := platforms.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("no platform is named %q%s; spotdrill platforms shows them", name, strict.Among(name, Platforms()))
	}
	return ParsePlatform(file, data)
}

// ParsePlatform reads and validates the file of a preset. Errors name the file, the line and what is allowed.
func ParsePlatform(file string, data []byte) (*Platform, error) {
	p := &Platform{CoreDNS: coredns.Defaults(), text: data}
	unread := strict.Decode(file, data, p)
	if unread != nil && p.Name == "" {
		return nil, unread
	}
	if _, _, set := strict.Find(data, "coredns.lameduck"); !set && p.CoreDNS.Corefile != "" {
		p.CoreDNS.Lameduck = strict.Duration(coredns.Read(coredns.Source{Text: p.CoreDNS.Corefile}).Lameduck)
	}
	wrong := p.validate(strings.TrimSuffix(path.Base(file), ".yaml"))
	if unread != nil {
		wrong = wrong.besides(unread, data)
	}
	if err := errors.Join(unread, wrong.in(file, data)); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Platform) validate(fileName string) problems {
	var wrong problems
	oneOf(&wrong, "apiVersion", p.APIVersion, []string{APIVersion})
	oneOf(&wrong, "kind", p.Kind, []string{PlatformKind})
	if p.Name != fileName {
		wrong.add("name", "%q must be the file's name, %q", p.Name, fileName)
	}
	if strings.TrimSpace(p.Title) == "" {
		wrong.add("title", "must not be empty")
	}
	validateDNS(p.CoreDNS, &wrong)
	if _, _, set := strict.Find(p.text, "coredns.placement"); set {
		wrong.add("coredns.placement", "is the scenario's to choose")
	}
	oneOfIfSet(&wrong, "kubeProxy.mode", p.KubeProxy.Mode, history.ProxyModes())
	wrong.upTo("kubeProxy.minSyncPeriod", p.KubeProxy.MinSyncPeriod.D(), time.Minute)
	validateShutdown("shutdown.gracePeriod", p.Shutdown.GracePeriod.D(), "shutdown.criticalPods", p.Shutdown.CriticalPods.D(), &wrong)
	for i, sentence := range p.NotHere {
		if strings.TrimSpace(sentence) == "" {
			wrong.add(fmt.Sprintf("notHere[%d]", i), "must not be empty")
		}
	}
	values := p.Values()
	for _, v := range values {
		if v.Source == "" {
			wrong.add(v.Field, "has no source: add one under sources, for %q or what it is part of", v.Field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(p.Sources)) {
		switch url := p.Sources[field]; {
		case !strings.HasPrefix(url, "https://"):
			wrong.add("sources", "%s: %q is not the URL of a page", field, url)
		case !slices.ContainsFunc(values, func(v Value) bool { return v.Field == field || strings.HasPrefix(v.Field, field+".") }):
			wrong.add("sources", "%s: the file does not set such a value", field)
		}
	}
	return wrong
}

// Value is one that a preset sets.
type Value struct {
	// Field is its path in the file, such as coredns.readiness.period.
	Field string `json:"field"`
	// Text is the value as the file has it.
	Text string `json:"value"`
	// Source is the URL of the page that it comes from.
	Source string `json:"source"`
}

// Values are those that the file sets, in its order.
func (p *Platform) Values() []Value {
	var doc yaml.Node
	if yaml.Unmarshal(p.text, &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	var out []Value
	var walk func(field string, node *yaml.Node)
	walk = func(field string, node *yaml.Node) {
		if node.Kind == yaml.MappingNode {
			for pair := range slices.Chunk(node.Content, 2) {
				walk(field+"."+pair[0].Value, pair[1])
			}
			return
		}
		text := node.Value
		if node.Kind != yaml.ScalarNode {
			b, _ := yaml.Marshal(node) // of what was read
			text = strings.TrimSpace(string(b))
		}
		out = append(out, Value{Field: field, Text: text, Source: p.source(field)})
	}
	for pair := range slices.Chunk(doc.Content[0].Content, 2) {
		if slices.Contains([]string{"versions", "coredns", "kubeProxy", "shutdown"}, pair[0].Value) {
			walk(pair[0].Value, pair[1])
		}
	}
	return out
}

// source is the URL for a field: its own, or that of what it is part of.
func (p *Platform) source(field string) string {
	for {
		if url := p.Sources[field]; url != "" {
			return url
		}
		i := strings.LastIndexByte(field, '.')
		if i < 0 {
			return ""
		}
		field = field[:i]
	}
}

// Lacks is what a drill with the preset does not have of the platform, in one line; "" if nothing.
func (p *Platform) Lacks() string {
	return strings.Join(strings.Fields(strings.Join(p.NotHere, " ")), " ")
}

// complete reads a scenario with the values of the platform in place of kubeadm's. Its text has them, so that
// it is read without the platform from then on. Own is the scenario as its file has it alone.
func (l Loader) complete(file string, data []byte, own Scenario) (Scenario, error) {
	text, err := l.Platform.completed(data, own)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: write the scenario with the values of platform %s: %w", file, l.Platform.Name, err)
	}
	s, err := Loader{Kinds: l.Kinds}.parse(file, text)
	if err != nil {
		return Scenario{}, fmt.Errorf("with the values of platform %s, the scenario cannot be played (lines are those of its completed text): %w", l.Platform.Name, err)
	}
	return s, nil
}

// completed is the text of a scenario with the values of the platform.
func (p *Platform) completed(data []byte, own Scenario) ([]byte, error) {
	var doc, settings yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	root := doc.Content[0]
	if err := settings.Encode(p.settings(data, own)); err != nil {
		return nil, err
	}
	setField(root, "coredns", &settings)
	if p.Shutdown.GracePeriod != 0 {
		for _, name := range slices.Sorted(maps.Keys(own.ShutDown())) {
			if prepared := own.Nodes[name].Prepared; prepared != nil && prepared.ShutdownGracePeriod != nil {
				continue // its own
			}
			prepared := mappingOf(mappingOf(mappingOf(root, "nodes"), name), "prepared")
			setField(prepared, "shutdownGracePeriod", textNode(p.Shutdown.GracePeriod.D().String()))
			setField(prepared, "shutdownGracePeriodCriticalPods", textNode(p.Shutdown.CriticalPods.D().String()))
		}
	}
	root.HeadComment = strings.TrimSpace("# With the values of platform " + p.Name + ".\n" + root.HeadComment)
	return yaml.Marshal(&doc)
}

// settings are those of CoreDNS in a scenario: what its file sets, and the platform's for all others.
func (p *Platform) settings(data []byte, own Scenario) coredns.Settings {
	s := struct {
		CoreDNS coredns.Settings `yaml:"coredns"`
	}{p.CoreDNS}
	_ = yaml.Unmarshal(data, &s) // it was read before
	set := func(field string) bool { _, _, found := strict.Find(data, "coredns."+field); return found }
	c := &s.CoreDNS
	if set("corefile") && !set("lameduck") {
		c.Lameduck = own.CoreDNS.Lameduck
	}
	// The port is that of the Corefile.
	switch {
	case set("port") == set("corefile"):
	case set("corefile"):
		c.Port = own.CoreDNS.Port
	case c.Corefile != "":
		if text, err := coredns.WithPort(c.Corefile, c.PodPort()); err == nil { // otherwise the loader shows why
			c.Corefile = text
		}
	}
	// A budget has one of the two forms.
	if set("minAvailable") {
		c.MaxUnavailable, c.UnhealthyPodEvictionPolicy = "", own.CoreDNS.UnhealthyPodEvictionPolicy
	} else if set("maxUnavailable") {
		c.MinAvailable, c.UnhealthyPodEvictionPolicy = 0, own.CoreDNS.UnhealthyPodEvictionPolicy
	}
	if !set("daemonSet") && (set("replicas") || own.needsDeployment() != "") {
		c.DaemonSet = false
	}
	c.MinAvailable = min(c.MinAvailable, c.Replicas)
	if set("autoScaling") && !set("replicas") {
		c.Replicas = min(max(c.Replicas, c.AutoScaling.Min), c.AutoScaling.Max)
	}
	// The file's own combination is safe, or has unsafe: this is about one with a value of the platform.
	c.Unsafe = c.GracePeriod <= c.PreStop+c.Lameduck
	return *c
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// setField sets a field of a mapping, and adds it if there is none.
func setField(mapping *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, textNode(name), value)
}

// mappingOf is a field of a mapping that is one itself; it is added if there is none.
func mappingOf(mapping *yaml.Node, name string) *yaml.Node {
	if value := fieldOf(mapping, name); value != nil && value.Kind == yaml.MappingNode {
		return value
	}
	value := &yaml.Node{Kind: yaml.MappingNode}
	setField(mapping, name, value)
	return value
}
