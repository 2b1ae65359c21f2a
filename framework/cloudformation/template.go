package cloudformation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/logic"
)

// Template is a template with its parameters.
type Template struct {
	root  map[string]any
	given map[string]string // values of parameters and pseudo parameters
	// partition is that of the ARNs in the template, if all are of one: it is deployed there.
	partition string
}

// Resource is a resource of a template, with its intrinsic functions evaluated.
type Resource struct {
	Name, Type string
	Properties map[string]any
	// Condition is a symbol if whether the resource exists is not decided; else empty.
	Condition string
}

// ErrTerraform reports that a file is one of Terraform.
var ErrTerraform = errors.New("it is of Terraform, which is not read: write the queue, its policy and the rules as a CloudFormation template, or look at what is deployed, with spotdrill recommend --aws")

var terraform = regexp.MustCompile(`(?m)^\s*(?:(?:resource|data)\s+"[\w-]+"\s+"[\w-]+"|(?:module|variable|provider|output)\s+"[\w-]+"|terraform|locals)\s*\{`)

// IsTerraform reports whether a text is one of Terraform's language.
func IsTerraform(text []byte) bool { return terraform.Match(text) }

// Parse reads a template, JSON or YAML, also as `aws cloudformation get-template` prints it. Its error
// describes what the text is instead. Errors: ErrTerraform.
func Parse(text []byte) (*Template, error) {
	doc, err := Decode(text)
	if err != nil {
		if IsTerraform(text) {
			return nil, ErrTerraform
		}
		return nil, fmt.Errorf("it is neither JSON nor YAML: %w", err)
	}
	root, ok := doc.(map[string]any)
	if !ok {
		if IsTerraform(text) {
			return nil, ErrTerraform
		}
		return nil, errors.New("it is no CloudFormation template: it is not a mapping")
	}
	return New(root)
}

// New is the template that was decoded before.
func New(root map[string]any) (*Template, error) {
	switch body := root["TemplateBody"].(type) {
	case string:
		return Parse([]byte(body))
	case map[string]any:
		root = body
	}
	for _, key := range []string{"resource", "terraform_version", "planned_values", "terraform"} {
		if _, has := root[key]; has {
			return nil, ErrTerraform
		}
	}
	resources, ok := root["Resources"].(map[string]any)
	if !ok || len(resources) == 0 {
		if kind, has := root["kind"].(string); has {
			return nil, fmt.Errorf("it is no CloudFormation template: it is a %s of Kubernetes", kind)
		}
		return nil, errors.New("it is no CloudFormation template: it has no Resources")
	}
	for name, r := range resources {
		if strings.HasPrefix(name, "Fn::") {
			return nil, fmt.Errorf("it has %s, which only CloudFormation expands: use what `aws cloudformation get-template --template-stage Processed` prints", name)
		}
		if _, ok := r.(map[string]any); !ok {
			return nil, fmt.Errorf("resource %s is not a mapping", name)
		}
	}
	return &Template{root: root, given: map[string]string{}, partition: partitionOf(root)}, nil
}

var literalARN = regexp.MustCompile(`\barn:(aws[\w-]*):`)

// partitionOf is the partition that all ARNs in the texts of a template name; empty if they name none, or several.
func partitionOf(root map[string]any) string {
	var names []string
	walk(root, func(text string) string {
		for _, m := range literalARN.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return text
	})
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 1 {
		return names[0]
	}
	return ""
}

// section is a part of the template by name; nil if it has none.
func (t *Template) section(name string) map[string]any {
	m, _ := t.root[name].(map[string]any)
	return m
}

// Evaluate evaluates the functions in a part of a template without the rest of it.
func Evaluate(part any) any {
	return (&evaluation{Template: &Template{root: map[string]any{}}}).value(part, 0)
}

// Has reports whether the template has a parameter.
func (t *Template) Has(parameter string) bool {
	_, has := t.section("Parameters")[parameter]
	return has
}

// Missing are the parameters that have neither a value nor a default.
func (t *Template) Missing() []string {
	var names []string
	for name := range t.section("Parameters") {
		if value := (&evaluation{Template: t}).reference(name, 0); len(Parameters(value)) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pseudo are the pseudo parameters that can be set, and their symbols.
func pseudo() map[string]string {
	return map[string]string{
		"AWS::AccountId": Account, "AWS::Region": Region, "AWS::Partition": Partition,
		"AWS::StackName": StackName, "AWS::StackId": "stack id", "AWS::URLSuffix": "URL suffix", "AWS::NotificationARNs": "notification ARNs",
	}
}

// Set sets parameters; AWS::AccountId, AWS::Region and AWS::Partition as well. A name that the template
// does not have, or a value that it does not allow, is an error.
func (t *Template) Set(values map[string]string) error {
	var errs []error
	parameters := t.section("Parameters")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, isPseudo := pseudo()[name]
		declared, has := parameters[name].(map[string]any)
		switch allowed := List(declared["AllowedValues"]); {
		case !has && !isPseudo:
			names := strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")
			if names == "" {
				names = "none"
			}
			errs = append(errs, fmt.Errorf("the template has no parameter %s; its parameters: %s", name, names))
		case len(allowed) > 0 && !slices.ContainsFunc(allowed, func(v any) bool { text, _ := Text(v); return text == values[name] }):
			errs = append(errs, fmt.Errorf("parameter %s does not allow %q, only: %s", name, values[name], strings.Trim(fmt.Sprint(allowed), "[]")))
		default:
			t.given[name] = values[name]
		}
	}
	return errors.Join(errs...)
}

// Resources are the resources of some types, by their names in order. Those whose condition is false are
// left out.
func (t *Template) Resources(types ...string) []Resource {
	var out []Resource
	resources := t.section("Resources")
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		r, _ := resources[name].(map[string]any)
		kind, _ := r["Type"].(string)
		if !slices.Contains(types, kind) {
			continue
		}
		resource := Resource{Name: name, Type: kind}
		e := &evaluation{Template: t}
		if condition, has := r["Condition"].(string); has {
			switch e.condition(condition, 0) {
			case logic.No:
				continue
			case logic.Maybe:
				resource.Condition = Symbol("condition " + condition)
			}
		}
		resource.Properties, _ = e.value(r["Properties"], 0).(map[string]any)
		out = append(out, resource)
	}
	return out
}

// property evaluates one property of a resource; nil if it has none.
func (e *evaluation) property(resource, name string, depth int) any {
	r, _ := e.section("Resources")[resource].(map[string]any)
	properties, _ := r["Properties"].(map[string]any)
	return e.value(properties[name], depth+1)
}

// Attribute is an attribute of a resource, or "Ref" for what a reference to it is.
func (t *Template) Attribute(resource, attribute string) string {
	return (&evaluation{Template: t}).attribute(resource, attribute, 0)
}

func (e *evaluation) attribute(resource, attribute string, depth int) string {
	r, has := e.section("Resources")[resource].(map[string]any)
	if !has || depth > mostDepth {
		return Symbol(attribute + " of " + resource)
	}
	named := func(property string) string {
		if name, ok := Text(e.property(resource, property, depth)); ok && name != "" {
			return name
		}
		return e.pseudo("AWS::StackName") + "-" + resource + "-" + Symbol(generated+resource)
	}
	arn := func(service, resource string) string {
		return fmt.Sprintf("arn:%s:%s:%s:%s:%s", e.pseudo("AWS::Partition"), service, e.pseudo("AWS::Region"), e.pseudo("AWS::AccountId"), resource)
	}
	unknown := Symbol(attribute + " of " + resource)
	choose := func(values map[string]string) string {
		if v, known := values[attribute]; known {
			return v
		}
		return unknown
	}
	kind, _ := r["Type"].(string)
	switch kind {
	case "AWS::SQS::Queue":
		name := named("QueueName")
		url := fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", e.pseudo("AWS::Region"), e.pseudo("AWS::AccountId"), name)
		return choose(map[string]string{"Ref": url, "QueueUrl": url, "QueueName": name, "Arn": arn("sqs", name)})
	case "AWS::Events::Rule":
		name := named("Name")
		path := name
		if bus, ok := Text(e.property(resource, "EventBusName", depth)); ok && bus != "default" && bus != "" {
			path = bus[strings.LastIndex(bus, "/")+1:] + "/" + name
		}
		return choose(map[string]string{"Ref": name, "Arn": arn("events", "rule/"+path)})
	case "AWS::Events::EventBus":
		name := named("Name")
		return choose(map[string]string{"Ref": name, "Name": name, "Arn": arn("events", "event-bus/"+name)})
	case "AWS::KMS::Key":
		id := Symbol(generated + resource)
		return choose(map[string]string{"Ref": id, "KeyId": id, "Arn": arn("kms", "key/"+id)})
	case "AWS::KMS::Alias":
		return choose(map[string]string{"Ref": named("AliasName")})
	}
	if parts := strings.Split(kind, "::"); attribute == "Arn" && len(parts) == 3 && parts[0] == "AWS" && parts[1] != "CloudFormation" {
		return arn(strings.ToLower(parts[1]), Symbol(generated+resource)) // at least it is none of another service
	}
	return unknown
}

// JSON is an evaluated value as JSON; symbols as <name>.
func JSON(v any) (string, error) {
	text, err := json.Marshal(walk(v, Printable))
	return string(text), err
}
