package addon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"sigs.k8s.io/yaml"
)

// ErrSchema reports that a schema of configuration values cannot be used.
var ErrSchema = errors.New("no JSON schema of configuration values")

// validateMost is how long validating values may take.
const validateMost = 5 * time.Second

// Schema is that of the configuration values of an add-on's version, as
// aws eks describe-addon-configuration prints it.
type Schema struct {
	fields  map[string]string // what each accepts, by its path
	schema  *jsonschema.Schema
	version string        // where it was read from
	most    time.Duration // how long validating values may take
}

// SchemaChange is a configuration value that two versions do not accept in the same way.
type SchemaChange struct {
	// Field is its path: .a.b, .list[] for the items of a list, and . for the values as a whole.
	Field string `json:"field"`
	// Was and Is are what each version accepts; empty if it has no such value.
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
}

// AtRisk reports whether values that the former version accepts may not be accepted any more.
func (c SchemaChange) AtRisk() bool {
	return c.Was != "" || slices.Contains(strings.Split(c.Is, ", "), required)
}

// ReadSchema reads the schema of the version of that name. It reads nothing that the schema
// refers to elsewhere.
func ReadSchema(version string, text io.Reader) (Schema, error) {
	s := Schema{version: version, most: validateMost}
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
	if s.fields, err = fieldsOf(doc); err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrSchema, version, err)
	}
	return s, nil
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

// Values returns configuration values as JSON: those of a text in JSON or YAML, also quoted as JSON, or of the
// answer of aws eks describe-addon.
func Values(text []byte) ([]byte, error) {
	plain, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var quoted string
	if json.Unmarshal(plain, &quoted) == nil && strings.ContainsAny(quoted, "{:") && len(quoted) < len(text) {
		return Values([]byte(quoted))
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(plain, &values); err != nil || values == nil {
		return nil, errors.New("they are no object")
	}
	if values["addon"] == nil {
		return plain, nil
	}
	var addOn struct {
		ConfigurationValues *string `json:"configurationValues"`
	}
	if err := json.Unmarshal(values["addon"], &addOn); err != nil || addOn.ConfigurationValues == nil {
		return nil, errors.New("the answer of describe-addon has no configurationValues: the add-on has its defaults")
	}
	return Values([]byte(*addOn.ConfigurationValues))
}

// Accepts returns why the version does not accept configuration values, one line for each
// problem; nil if it does. An error means that the text has no values, see Values, or that validating
// them takes longer than validateMost: definitions that contain themselves twice could take for ever.
func (s Schema) Accepts(ctx context.Context, values io.Reader) ([]string, error) {
	text, err := io.ReadAll(values)
	if err == nil {
		text, err = Values(text)
	}
	var doc any
	if err == nil {
		doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	}
	if err != nil {
		return nil, fmt.Errorf("configuration values: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.most)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.schema.Validate(doc) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		return nil, fmt.Errorf("configuration values: validate them by the schema of %s: %w", s.version, ctx.Err())
	}
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
