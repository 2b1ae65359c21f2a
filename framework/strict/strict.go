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
// with yaml tags. Errors read "FILE:LINE: what is wrong"; all of them are reported at once, and out has what
// could be read.
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
	if hasAlias(&doc) {
		if err := doc.Decode(new(any)); err != nil {
			return located(file, err)
		}
	}
	return decode(file, doc.Content[0], "the document", out)
}

func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

// DecodeNode reads a part of a YAML document that was kept as a node, as Decode does. Where
// names the part in errors.
func DecodeNode(file string, node *yaml.Node, where string, out any) error {
	return decode(file, node, where, out)
}

// decode checks and reads a node. What is wrong with a value is reported unless the node at its line has a
// form that cannot be read anyway.
func decode(file string, node *yaml.Node, where string, out any) error {
	wrong := check(node, reflect.TypeOf(out).Elem(), where)
	if err := node.Decode(out); err != nil {
		values := problemsOf(err)
		if len(values) == 0 && len(wrong) == 0 {
			return located(file, err)
		}
		for _, v := range values {
			if !slices.ContainsFunc(wrong, func(w problem) bool { return w.line == v.line && !w.unknown }) {
				wrong = append(wrong, v)
			}
		}
	}
	slices.SortStableFunc(wrong, func(a, b problem) int { return a.line - b.line })
	var errs []error
	for _, w := range wrong {
		errs = append(errs, &Error{file, w.line, w.what})
	}
	return errors.Join(errs...)
}

// problem is what is wrong with the node at a line.
type problem struct {
	line    int
	what    string
	unknown bool // it is an unknown field, next to others that can be read
}

func wrongAt(line int, format string, args ...any) []problem {
	return []problem{{line: line, what: fmt.Sprintf(format, args...)}}
}

// problemsOf are those that the YAML package reports with their lines.
func problemsOf(err error) (all []problem) {
	var several *yaml.LoadErrors
	if errors.As(err, &several) {
		for _, e := range several.Errors {
			all = append(all, problem{line: e.Mark.Line, what: e.Message})
		}
		return all
	}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return wrongAt(one.Mark.Line, "%s", one.Message)
	}
	return nil
}

// located formats the YAML package's errors as FILE:LINE: what is wrong.
func located(file string, err error) error {
	var errs []error
	for _, p := range problemsOf(err) {
		errs = append(errs, &Error{file, p.line, p.what})
	}
	if len(errs) == 0 {
		return fmt.Errorf("%s: %w", file, err)
	}
	return errors.Join(errs...)
}

// Line finds the line of a field in the YAML document, given its path such as
// steps[0].notice.type. If the field is missing, it is the line of its parent.
func Line(data []byte, path string) int {
	line, _, _ := Find(data, path)
	return line
}

// Find is Line, and returns the last line of the field, and whether it is there at all.
func Find(data []byte, path string) (line, last int, found bool) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return 1, 1, false
	}
	line = 1
	node := doc.Content[0]
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
			return line, line, false
		}
		node = next
	}
	return line, max(line, lastLine(node)), true
}

func lastLine(node *yaml.Node) int {
	last := node.Line
	for _, part := range node.Content {
		last = max(last, lastLine(part))
	}
	return last
}

// Error is what is wrong at a line of a file.
type Error struct {
	File string
	Line int
	What string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What) }

// Follows reports whether what is wrong with a field, given its path as in Find, may only follow from what could not
// be read: the field is missing, perhaps because it is misspelled, or is within what could not be read.
func Follows(unread error, data []byte, path string) bool {
	first, last, given := Find(data, path)
	return !given || slices.ContainsFunc(Lines(unread), func(line int) bool { return first <= line && line <= last })
}

// Lines are those of the Errors that an error consists of.
func Lines(err error) (lines []int) {
	var one *Error
	var several interface{ Unwrap() []error }
	switch {
	case errors.As(err, &several):
		for _, part := range several.Unwrap() {
			lines = append(lines, Lines(part)...)
		}
	case errors.As(err, &one):
		lines = append(lines, one.Line)
	}
	return lines
}

var unmarshaler = reflect.TypeFor[yaml.Unmarshaler]()

// check compares a node with the type that it will be decoded into, and returns all that is wrong.
func check(node *yaml.Node, t reflect.Type, where string) (wrong []problem) {
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
				wrong = append(wrong, problem{key.Line, fmt.Sprintf("unknown field %q in %s%s", key.Value, where, Among(key.Value, allowed(fields))), true})
				continue
			}
			wrong = append(wrong, check(value, ft, key.Value)...)
		}
	case isNull(node):
	case t.Kind() == reflect.Struct:
		return wrongAt(node.Line, "%s must be a mapping with any of: %s", where, strings.Join(allowed(fieldsOf(t)), ", "))
	case t.Kind() == reflect.Slice && node.Kind != yaml.SequenceNode:
		return wrongAt(node.Line, "%s must be a list", where)
	case t.Kind() == reflect.Map && node.Kind != yaml.MappingNode:
		return wrongAt(node.Line, "%s must be a mapping", where)
	case t.Kind() == reflect.Slice:
		for _, item := range node.Content {
			if isNull(item) { // a list would be decoded without it
				wrong = append(wrong, wrongAt(item.Line, "an item of %s is empty", where)...)
				continue
			}
			wrong = append(wrong, check(item, t.Elem(), where)...)
		}
	case t.Kind() == reflect.Map:
		for i := 0; i+1 < len(node.Content); i += 2 {
			wrong = append(wrong, check(node.Content[i+1], t.Elem(), node.Content[i].Value)...)
		}
	}
	return wrong
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

// allowed are the names of fields, in order.
func allowed(fields map[string]reflect.Type) []string { return slices.Sorted(maps.Keys(fields)) }

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
	if len(set) == 1 {
		return name, value, nil
	}
	given := "nothing is set"
	if len(set) > 1 {
		given = strings.Join(set, " and ") + " are set"
	}
	return "", nil, fmt.Errorf("%s; requires exactly one of: %s", given, strings.Join(allowed(fieldsOf(alternatives.Type())), ", "))
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
