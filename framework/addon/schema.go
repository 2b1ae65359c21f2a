package addon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// ErrSchema reports that a schema of configuration values cannot be used.
var ErrSchema = errors.New("no JSON schema of configuration values")

// Schema is that of the configuration values of an add-on's version, as
// aws eks describe-addon-configuration prints it.
type Schema struct {
	fields  map[string]string // what each accepts, by its path
	schema  *jsonschema.Schema
	version string // where it was read from
}

// SchemaChange is a configuration value that two versions do not accept in the same way.
type SchemaChange struct {
	Field string `json:"field"`
	// Was and Is are what each version accepts; empty if it has no such value.
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
}

// ReadSchema reads the schema of the version of that name. It reads nothing that the schema
// refers to elsewhere.
func ReadSchema(version string, text io.Reader) (Schema, error) {
	s := Schema{fields: map[string]string{}, version: version}
	doc, err := jsonschema.UnmarshalJSON(text)
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrSchema, version, err)
	}
	// The API returns the schema as a string within its answer.
	if answer, ok := doc.(map[string]any); ok {
		if inner, ok := answer["configurationSchema"].(string); ok {
			return ReadSchema(version, strings.NewReader(inner))
		}
	}
	const at = "addon:///schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err = compiler.AddResource(at, doc); err == nil {
		s.schema, err = compiler.Compile(at)
	}
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrSchema, version, err)
	}
	s.add("", s.schema, nil)
	if len(s.fields) == 0 {
		return s, fmt.Errorf("%w: %s has no properties", ErrSchema, version)
	}
	return s, nil
}

// add adds what is below a field. A schema that contains itself is not followed again.
func (s Schema) add(field string, of *jsonschema.Schema, within []*jsonschema.Schema) {
	if of == nil || slices.Contains(within, of) {
		return
	}
	within = append(slices.Clone(within), of)
	s.add(field, of.Ref, within)
	for _, parts := range [][]*jsonschema.Schema{of.AllOf, of.AnyOf, of.OneOf} {
		for _, part := range parts {
			s.add(field, part, within)
		}
	}
	for name, property := range of.Properties {
		path := field + "." + name
		s.fields[path] = accepts(property, nil)
		s.add(path, property, within)
	}
}

// accepts is what a schema accepts, in words: "string, one of "a", "b", default "a"".
func accepts(of *jsonschema.Schema, within []*jsonschema.Schema) string {
	if of == nil || slices.Contains(within, of) {
		return ""
	}
	var parts []string
	if of.Types != nil && !of.Types.IsEmpty() {
		parts = append(parts, strings.Join(of.Types.ToStrings(), " or "))
	}
	if of.Enum != nil {
		var values []string
		for _, v := range of.Enum.Values {
			values = append(values, jsonOf(v))
		}
		parts = append(parts, "one of "+strings.Join(values, ", "))
	}
	if of.Default != nil {
		parts = append(parts, "default "+jsonOf(*of.Default))
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	if text := accepts(of.Ref, append(slices.Clone(within), of)); text != "" {
		return text
	}
	return "any value"
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// DiffSchemas returns the values that one of two versions does not accept, or accepts otherwise,
// by their paths.
func DiffSchemas(was, is Schema) []SchemaChange {
	var out []SchemaChange
	for field, before := range was.fields {
		if after := is.fields[field]; after != before {
			out = append(out, SchemaChange{field, before, after})
		}
	}
	for field, after := range is.fields {
		if _, known := was.fields[field]; !known {
			out = append(out, SchemaChange{Field: field, Is: after})
		}
	}
	slices.SortFunc(out, func(a, b SchemaChange) int { return strings.Compare(a.Field, b.Field) })
	return out
}

// Accepts returns why the version does not accept configuration values, one line for each
// problem; nil if it does. An error means that the values are no JSON.
func (s Schema) Accepts(values io.Reader) ([]string, error) {
	doc, err := jsonschema.UnmarshalJSON(values)
	if err != nil {
		return nil, fmt.Errorf("configuration values: %w", err)
	}
	err = s.schema.Validate(doc)
	var refused *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &refused):
		return nil, fmt.Errorf("configuration values: %w", err)
	}
	var out []string
	printer := message.NewPrinter(language.English)
	for _, cause := range leaves(refused) {
		where := "the values"
		if len(cause.InstanceLocation) > 0 {
			where = "." + strings.Join(cause.InstanceLocation, ".")
		}
		out = append(out, fmt.Sprintf("%s: %s", where, cause.ErrorKind.LocalizedString(printer)))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// leaves are the problems that have no causes.
func leaves(of *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(of.Causes) == 0 {
		return []*jsonschema.ValidationError{of}
	}
	var out []*jsonschema.ValidationError
	for _, cause := range of.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}
