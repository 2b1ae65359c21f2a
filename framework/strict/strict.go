// Package strict reads YAML in which nothing may be misspelt: an unknown field is an
// error with the file, the line and the allowed fields.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Decode reads the one YAML document in data into out, a pointer to a struct
// with yaml tags. Errors read "FILE:LINE: what is wrong".
func Decode(file string, data []byte, out any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:1: the file is empty", file)
		}
		return located(file, err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s:%d: only one YAML document is allowed in a file", file, max(1, second.Line))
	}
	// An alias that contains itself is refused here: check would follow it forever.
	if err := doc.Decode(new(any)); err != nil {
		return located(file, err)
	}
	if err := check(doc.Content[0], reflect.TypeOf(out).Elem(), "the document"); err != nil {
		return fmt.Errorf("%s:%w", file, err)
	}
	if err := doc.Decode(out); err != nil {
		return located(file, err)
	}
	return nil
}

// DecodeNode reads a part of a YAML document that was kept as a node, as Decode does. Where
// names the part in errors.
func DecodeNode(file string, node *yaml.Node, where string, out any) error {
	if err := check(node, reflect.TypeOf(out).Elem(), where); err != nil {
		return fmt.Errorf("%s:%w", file, err)
	}
	if err := node.Decode(out); err != nil {
		return located(file, err)
	}
	return nil
}

// located formats the YAML package's errors as FILE:LINE: what is wrong.
func located(file string, err error) error {
	var several *yaml.LoadErrors
	if errors.As(err, &several) {
		var errs []error
		for _, e := range several.Errors {
			errs = append(errs, fmt.Errorf("%s:%d: %s", file, e.Mark.Line, e.Message))
		}
		return errors.Join(errs...)
	}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return fmt.Errorf("%s:%d: %s", file, one.Mark.Line, one.Message)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Line finds the line of a field in the YAML document, given its path such as
// steps[0].notice.type. If the field is missing, it is the line of its parent.
func Line(data []byte, path string) int {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return 1
	}
	node, line := doc.Content[0], 1
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next := (*yaml.Node)(nil)
		switch i, err := strconv.Atoi(name); {
		case node.Kind == yaml.SequenceNode && err == nil && i < len(node.Content):
			next = node.Content[i]
			line = next.Line
		case node.Kind == yaml.MappingNode:
			for k := 0; k+1 < len(node.Content); k += 2 {
				if node.Content[k].Value == name {
					next, line = node.Content[k+1], node.Content[k].Line
				}
			}
		}
		if next == nil {
			return line
		}
		node = next
	}
	return line
}

var unmarshaler = reflect.TypeFor[yaml.Unmarshaler]()

// check compares a node with the type that it will be decoded into.
func check(node *yaml.Node, t reflect.Type, where string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if t == reflect.TypeFor[time.Time]() || t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch {
	case t.Kind() == reflect.Struct && node.Kind == yaml.MappingNode:
		fields := fieldsOf(t)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			ft, ok := fields[key.Value]
			if !ok {
				return fmt.Errorf("%d: unknown field %q in %s; allowed: %s", key.Line, key.Value, where, allowed(fields))
			}
			if err := check(value, ft, key.Value); err != nil {
				return err
			}
		}
	case isNull(node):
		return nil
	case t.Kind() == reflect.Struct:
		return fmt.Errorf("%d: %s must be a mapping with any of: %s", node.Line, where, allowed(fieldsOf(t)))
	case t.Kind() == reflect.Slice && node.Kind != yaml.SequenceNode:
		return fmt.Errorf("%d: %s must be a list", node.Line, where)
	case t.Kind() == reflect.Map && node.Kind != yaml.MappingNode:
		return fmt.Errorf("%d: %s must be a mapping", node.Line, where)
	case t.Kind() == reflect.Slice:
		for _, item := range node.Content {
			if isNull(item) { // a list would be decoded without it
				return fmt.Errorf("%d: an item of %s is empty", item.Line, where)
			}
			if err := check(item, t.Elem(), where); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Map:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if err := check(node.Content[i+1], t.Elem(), node.Content[i].Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// fieldsOf maps the YAML names of a struct's fields to their types, fields of inline
// structs included.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			maps.Copy(out, fieldsOf(f.Type))
		}
		if name == "" || name == "-" {
			continue
		}
		out[name] = f.Type
	}
	return out
}

// allowed lists the names of fields as an error shows them.
func allowed(fields map[string]reflect.Type) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// Only returns the name and the value of the only pointer field that is set in a
// struct of alternatives, such as a step or a check. If none or several are set, the
// error lists the alternatives.
func Only(v any) (name string, value any, err error) {
	alternatives := reflect.Indirect(reflect.ValueOf(v))
	var set []string
	for i := range alternatives.NumField() {
		key, _, _ := strings.Cut(alternatives.Type().Field(i).Tag.Get("yaml"), ",")
		if f := alternatives.Field(i); key != "" && key != "-" && f.Kind() == reflect.Pointer && !f.IsNil() {
			set = append(set, key)
			name, value = key, f.Elem().Interface()
		}
	}
	fields := allowed(fieldsOf(alternatives.Type()))
	switch len(set) {
	case 0:
		return "", nil, fmt.Errorf("nothing is set; requires exactly one of: %s", fields)
	case 1:
		return name, value, nil
	}
	return "", nil, fmt.Errorf("%s are set; requires exactly one of: %s", strings.Join(set, " and "), fields)
}

// Duration is a time.Duration that has its unit in YAML: 250ms, 5s, 2m.
type Duration time.Duration

// UnmarshalYAML refuses a number without a unit, and negative durations.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	v, err := time.ParseDuration(node.Value)
	if err != nil || node.Value == "0" || v < 0 {
		return fmt.Errorf("%q is not a duration; write a number with its unit, such as 500ms, 5s or 2m", node.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML writes the duration with its unit.
func (d Duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

// D returns the duration as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }
