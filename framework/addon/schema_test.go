package addon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// cni is the schema of a version of vpc-cni: definitions, and a root that refers to them.
func cni(env string) string {
	return `{"$schema": "http://json-schema.org/draft-06/schema#", "$ref": "#/definitions/VpcCni", "definitions": {
		"VpcCni": {"type": "object", "additionalProperties": false, "properties": {
			"env": {"$ref": "#/definitions/Env"},
			"nodeAgent": {"type": "object", "properties": {"enabled": {"type": "boolean", "default": true}}}}},
		"Env": {"type": "object", "additionalProperties": false, "properties": {` + env + `}}}}`
}

const (
	podENI = `"ENABLE_POD_ENI": {"type": "string", "default": "false"}`
	demux  = `"DISABLE_TCP_EARLY_DEMUX": {"type": "string", "enum": ["true", "false"]}`
)

func schemaOf(t *testing.T, version, text string) Schema {
	t.Helper()
	s, err := ReadSchema(version, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDiffSchemas(t *testing.T) {
	former, next := schemaOf(t, "A", cni(podENI)), schemaOf(t, "B", cni(podENI+", "+demux))
	added := SchemaChange{Field: ".env.DISABLE_TCP_EARLY_DEMUX", Is: `string, one of "true", "false"`}
	for name, c := range map[string]struct {
		was, is Schema
		want    []SchemaChange
	}{
		"the same":     {former, former, nil},
		"a new value":  {former, next, []SchemaChange{added}},
		"a value less": {next, former, []SchemaChange{{Field: added.Field, Was: added.Is}}},
		"a default":    {former, schemaOf(t, "C", cni(strings.Replace(podENI, `"false"`, `"true"`, 1))), []SchemaChange{{".env.ENABLE_POD_ENI", `string, default "false"`, `string, default "true"`}}},
		"another type": {former, schemaOf(t, "C", cni(`"ENABLE_POD_ENI": {"type": ["boolean", "null"]}`)), []SchemaChange{{".env.ENABLE_POD_ENI", `string, default "false"`, "boolean or null"}}},
		"no type":      {former, schemaOf(t, "C", cni(`"ENABLE_POD_ENI": {}`)), []SchemaChange{{".env.ENABLE_POD_ENI", `string, default "false"`, "any value"}}},
	} {
		if got := DiffSchemas(c.was, c.is); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// What a stricter version does not accept is a change, by whatever keyword.
func TestStricterSchemas(t *testing.T) {
	of := func(property string) Schema {
		return schemaOf(t, "A", `{"$ref": "#/definitions/D", "definitions": {"D": {"type": "object", "properties": {"a": `+property+`}}}}`)
	}
	for name, c := range map[string]struct{ was, is, field, want string }{
		"a maximum":           {`{"type": "integer", "maximum": 50}`, `{"type": "integer", "maximum": 10}`, ".a", "integer, at most 10"},
		"a minimum":           {`{"type": "integer"}`, `{"type": "integer", "minimum": 2}`, ".a", "integer, at least 2"},
		"a pattern":           {`{"type": "string"}`, `{"type": "string", "pattern": "^[0-9]+m$"}`, ".a", `string, pattern "^[0-9]+m$"`},
		"a length":            {`{"type": "string"}`, `{"type": "string", "maxLength": 3}`, ".a", "string, maxLength 3"},
		"items":               {`{"type": "array", "items": {"type": "object"}}`, `{"type": "array", "items": {"type": "string"}}`, ".a[]", "string"},
		"a field of items":    {`{"type": "array", "items": {"type": "object"}}`, `{"type": "array", "items": {"type": "object", "required": ["k"]}}`, ".a[].k", "any value, required"},
		"the number of items": {`{"type": "array"}`, `{"type": "array", "minItems": 1}`, ".a", "array, minItems 1"},
		"a required value":    {`{"properties": {"b": {"type": "string"}}}`, `{"required": ["b"], "properties": {"b": {"type": "string"}}}`, ".a.b", "string, required"},
		"no others":           {`{"type": "object"}`, `{"type": "object", "additionalProperties": false}`, ".a", "object, additionalProperties false"},
		"a type of others":    {`{"additionalProperties": {"type": "string"}}`, `{"additionalProperties": {"type": "integer"}}`, ".a(additionalProperties)", "integer"},
		"one of several":      {`{"anyOf": [{"type": "string"}]}`, `{"anyOf": [{"type": "string", "maxLength": 1}]}`, ".a(anyOf 1)", "string, maxLength 1"},
		"all of several":      {`{"allOf": [{"minimum": 1}]}`, `{"allOf": [{"minimum": 1}, {"maximum": 2}]}`, ".a", "at least 1, at most 2"},
		"a keyword of 2040":   {`{}`, `{"multipleOfDay": 3}`, ".a", "multipleOfDay 3"},
	} {
		got := DiffSchemas(of(c.was), of(c.is))
		if len(got) != 1 || got[0].Field != c.field || got[0].Is != c.want || !got[0].AtRisk() {
			t.Errorf("%s: got %+v, want %s: %s", name, got, c.field, c.want)
		}
	}
	if got := DiffSchemas(of(`{"title": "a"}`), of(`{"description": "b"}`)); len(got) != 0 {
		t.Errorf("descriptions: %+v", got)
	}
	if got := DiffSchemas(schemaOf(t, "A", `{"properties": {"a": {}}}`), schemaOf(t, "B", `{"additionalProperties": false, "properties": {"a": {}, "b": {}}}`)); len(got) != 2 || got[0].Field != "." || !got[0].AtRisk() || got[1].AtRisk() {
		t.Errorf("the values as a whole: %+v", got)
	}
}

func TestValuesAsPeopleHaveThem(t *testing.T) {
	const want = `{"a":{"b":2}}`
	for name, c := range map[string]struct{ text, want string }{
		"JSON":                {want, want},
		"YAML":                {"a:\n  b: 2 # two\n", want},
		"describe-addon":      {`{"addon": {"addonName": "coredns", "configurationValues": "{\"a\":{\"b\":2}}"}}`, want},
		"with YAML in it":     {`{"addon": {"configurationValues": "a:\n  b: 2\n"}}`, want},
		"an add-on without":   {`{"addon": {"addonName": "coredns"}}`, ""},
		"a list":              {"- a\n", ""},
		"nothing":             {"", ""},
		"a key that is twice": {"a: 1\na: 2\n", ""},
	} {
		if got, err := Values([]byte(c.text)); string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestValuesThatAVersionAccepts(t *testing.T) {
	former, next := schemaOf(t, "A", cni(podENI)), schemaOf(t, "B", cni(podENI+", "+demux))
	const values = `{"env": {"ENABLE_POD_ENI": "true", "DISABLE_TCP_EARLY_DEMUX": "true"}}`
	for name, c := range map[string]struct {
		of     Schema
		values string
		want   []string
	}{
		"accepted":        {next, values, nil},
		"a value too new": {former, values, []string{".env: additional properties 'DISABLE_TCP_EARLY_DEMUX' not allowed"}},
		"a wrong type":    {next, `{"env": {"ENABLE_POD_ENI": true}}`, []string{".env.ENABLE_POD_ENI: got boolean, want string"}},
		"no such value":   {next, `{"environment": {}}`, []string{"the values: additional properties 'environment' not allowed"}},
	} {
		got, err := c.of.Accepts(t.Context(), strings.NewReader(c.values))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	if _, err := next.Accepts(t.Context(), strings.NewReader("{")); err == nil {
		t.Error("values that are no JSON are accepted")
	}
}

// aws eks describe-addon-configuration prints the schema as a string in its answer.
func TestTheAnswerOfTheAPI(t *testing.T) {
	s := schemaOf(t, "A", fmt.Sprintf(`{"addonName": "vpc-cni", "configurationSchema": %q}`, cni(podENI)))
	if got := DiffSchemas(schemaOf(t, "B", cni(podENI)), s); len(got) != 0 {
		t.Errorf("it differs: %+v", got)
	}
}

func TestSchemasThatContainThemselves(t *testing.T) {
	s := schemaOf(t, "A", `{"properties": {"a": {"$ref": "#"}, "b": {"allOf": [{"properties": {"c": {"type": "string"}}}]}}}`)
	if got := DiffSchemas(Schema{}, s); len(got) != 4 || got[3].Field != ".b.c" {
		t.Errorf("%+v", got)
	}
}

func TestSchemasThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"no JSON":          "{",
		"no properties":    `{"type": "string"}`,
		"elsewhere":        `{"$ref": "https://example.com/schema.json"}`,
		"a file":           `{"$ref": "file:///etc/passwd"}`,
		"no such type":     `{"type": "text", "properties": {"a": {}}}`,
		"an answer's text": `{"configurationSchema": "{"}`,
	} {
		if _, err := ReadSchema("A", strings.NewReader(text)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// doubled has definitions that each use the next one twice: 2^40 in all.
func doubled() string {
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	return `{"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {` + strings.Join(defs, ", ") + `, "d40": {"type": "string"}}}`
}

// It takes a moment, and not the time until the end of the universe.
func TestDefinitionsThatUseEachOtherWithoutEnd(t *testing.T) {
	began := time.Now()
	if _, err := ReadSchema("A", strings.NewReader(doubled())); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "use each other too often") {
		t.Errorf("%v", err)
	}
	recursive, err := ReadSchema("A", strings.NewReader(`{"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if recursive.most != validateMost {
		t.Errorf("validating values may take %v", recursive.most)
	}
	recursive.most = 100 * time.Millisecond // nothing ends what is validated then
	if _, err := recursive.Accepts(t.Context(), strings.NewReader(strings.Repeat(`{"a": `, 60)+"{}"+strings.Repeat("}", 60))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 4*validateMost {
		t.Errorf("it took %v", took)
	}
}

func FuzzReadSchema(f *testing.F) {
	f.Add(cni(podENI))
	f.Add(`{"properties": {"a": {"$ref": "#"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadSchema("A", strings.NewReader(text))
		if err == nil && len(DiffSchemas(s, s)) != 0 {
			t.Error("it differs from itself")
		}
	})
}
