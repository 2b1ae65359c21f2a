// Package cloudformation reads CloudFormation templates and evaluates their intrinsic functions, as far
// as the template and its parameters decide them. What only AWS knows, such as the account or a
// generated name, becomes a symbol in the text.
package cloudformation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Limits of what is read: CloudFormation takes 1 MB at most.
const (
	mostBytes  = 1 << 20
	mostValues = 200_000
	mostDepth  = 100
)

var (
	errTooDeep = errors.New("it is nested too deeply")
	reserved   = regexp.MustCompile(`[\x{e000}\x{e001}]|(?i:\\u\{?0*e00[01])`)
	number     = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`)
)

// Decode reads JSON or YAML into maps, lists, strings, booleans, json.Numbers and nil. The short forms of
// intrinsic functions, such as !Ref, become the long ones. Errors name the line where it is known.
func Decode(text []byte) (any, error) {
	if reserved.Match(text) {
		return nil, errors.New("it contains U+E000 or U+E001, which are not for texts")
	}
	return DecodeValue(string(text))
}

// DecodeValue reads a text in an evaluated template, which may have symbols, as Decode does.
func DecodeValue(value string) (any, error) {
	if len(value) > mostBytes {
		return nil, fmt.Errorf("it has more than %d bytes", mostBytes)
	}
	text := bytes.TrimSpace([]byte(value))
	if len(text) == 0 {
		return nil, errors.New("it is empty")
	}
	v, errJSON := decodeJSON(text)
	if errJSON == nil {
		return v, nil
	}
	v, errYAML := decodeYAML(text)
	if errYAML != nil && strings.ContainsRune(`{["`, rune(text[0])) {
		return nil, errJSON
	}
	return v, errYAML
}

func decodeYAML(text []byte) (any, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := d.Decode(&doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document is in it")
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("it is empty")
	}
	left := mostValues
	return value(doc.Content[0], 0, &left)
}

func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more follows")
	}
	return v, nil
}

// value is what a node of YAML means.
func value(node *yaml.Node, depth int, left *int) (any, error) {
	*left--
	if *left < 0 || depth > mostDepth {
		return nil, errTooDeep
	}
	if node.Kind == yaml.AliasNode {
		return value(node.Alias, depth+1, left)
	}
	v, err := untagged(node, depth, left)
	if err != nil || !strings.HasPrefix(node.Tag, "!") || strings.HasPrefix(node.Tag, "!!") {
		return v, err
	}
	switch name := node.Tag[1:]; name {
	case "Ref", "Condition":
		return map[string]any{name: v}, nil
	case "GetAtt":
		if text, ok := v.(string); ok {
			resource, attribute, _ := strings.Cut(text, ".")
			v = []any{resource, attribute}
		}
		fallthrough
	default:
		return map[string]any{"Fn::" + name: v}, nil
	}
}

func untagged(node *yaml.Node, depth int, left *int) (any, error) {
	switch node.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(node.Content)/2)
		for pair := range slices.Chunk(node.Content, 2) {
			key := pair[0].Value
			if _, twice := m[key]; twice {
				return nil, fmt.Errorf("line %d: %s is there twice", pair[0].Line, key)
			}
			v, err := value(pair[1], depth+1, left)
			if err != nil {
				return nil, err
			}
			m[key] = v
		}
		return m, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for _, item := range node.Content {
			v, err := value(item, depth+1, left)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	switch tag := node.ShortTag(); {
	case tag == "!!null":
		return nil, nil
	case tag == "!!bool":
		return strings.EqualFold(node.Value, "true"), nil
	case (tag == "!!int" || tag == "!!float") && number.MatchString(node.Value):
		return json.Number(node.Value), nil
	}
	return node.Value, nil // dates as well, and ids of accounts that begin with 0
}

// Text is a scalar as text.
func Text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// List is a list, or a single value as a list of one; nil for nothing.
func List(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}
