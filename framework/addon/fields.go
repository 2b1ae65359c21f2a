package addon

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// fieldsMost limits the fields of a schema, readMost what is read of it: the letters of the words, and some
// for each definition. Definitions that use each other twice could have many more.
const (
	fieldsMost = 10_000
	readMost   = 16 << 20
	ofEach     = 64
)

// required is the word for a value that must be given.
const required = "required"

// fieldsOf returns what a schema accepts for each field, in words, by its path. Each keyword counts that
// does more than describe, also one that is not known here.
func fieldsOf(doc any) (map[string]string, error) {
	w := &walk{doc: doc, fields: map[string]string{}}
	w.add("", doc, false, []string{"#"})
	if w.amount > readMost {
		return nil, errors.New("its definitions use each other too often to be read")
	}
	if len(w.fields) > fieldsMost {
		return nil, fmt.Errorf("it has more than %s", history.Count(fieldsMost, "field"))
	}
	if len(w.fields) == 1 {
		return nil, errors.New("it has no properties")
	}
	w.fields["."] = w.fields[""]
	delete(w.fields, "")
	return w.fields, nil
}

type walk struct {
	doc    any
	fields map[string]string
	amount int // of what was read
}

// add adds a field and what is below it. A definition that contains itself is not followed again.
func (w *walk) add(path string, schema any, must bool, within []string) {
	if len(w.fields) > fieldsMost || w.amount > readMost {
		return
	}
	var words []string
	var parts []below
	w.read(schema, within, &words, &parts)
	if len(words) == 0 {
		words = append(words, "any value")
	}
	if must {
		words = append(words, required)
	}
	w.fields[path] = strings.Join(words, ", ")
	for _, b := range parts {
		w.add(path+b.step, b.schema, b.must, b.within)
	}
}

// below is a part of a schema that is about a part of its values.
type below struct {
	step   string
	schema any
	must   bool
	within []string
}

// described are the keywords that accept and refuse nothing.
var described = []string{"$comment", "$defs", "$id", "$schema", "definitions", "deprecated", "description", "examples", "id", "readOnly", "title", "writeOnly"}

// read reads what a schema accepts itself, and what is below.
func (w *walk) read(schema any, within []string, words *[]string, out *[]below) {
	if w.amount += ofEach; w.amount > readMost {
		return
	}
	switch s := schema.(type) {
	case bool:
		if !s {
			*words = append(*words, "nothing")
		}
		return
	case map[string]any:
		if ref, ok := s["$ref"].(string); ok {
			switch target, found := w.at(ref); {
			case slices.Contains(within, ref):
			case found:
				w.read(target, append(slices.Clone(within), ref), words, out)
			default:
				*words = append(*words, "as "+ref)
			}
			return
		}
		before := len(*words)
		w.readObject(s, within, words, out)
		for _, word := range (*words)[before:] {
			w.amount += len(word)
		}
	}
}

func (w *walk) readObject(s map[string]any, within []string, words *[]string, out *[]below) {
	must := texts(s["required"])
	properties, _ := s["properties"].(map[string]any)
	for _, name := range must {
		if _, ok := properties[name]; !ok {
			*out = append(*out, below{"." + name, true, true, within})
		}
	}
	for _, keyword := range inOrder(s) {
		value := s[keyword]
		list, _ := value.([]any)
		object, isObject := value.(map[string]any)
		switch keyword {
		case "required":
		case "type":
			*words = append(*words, strings.Join(slices.Sorted(slices.Values(texts(value))), " or "))
		case "enum":
			var values []string
			for _, v := range list {
				values = append(values, jsonOf(v))
			}
			*words = append(*words, "one of "+strings.Join(values, ", "))
		case "properties":
			for _, name := range slices.Sorted(maps.Keys(object)) {
				*out = append(*out, below{"." + name, object[name], slices.Contains(must, name), within})
			}
		case "allOf":
			for _, part := range list {
				w.read(part, within, words, out)
			}
		case "anyOf", "oneOf", "prefixItems":
			for i, part := range list {
				*out = append(*out, below{fmt.Sprintf("(%s %d)", keyword, i+1), part, false, within})
			}
		case "patternProperties", "dependencies", "dependentSchemas":
			for _, name := range slices.Sorted(maps.Keys(object)) {
				*out = append(*out, below{fmt.Sprintf("(%s %q)", keyword, name), object[name], false, within})
			}
		case "items":
			if list == nil {
				*out = append(*out, below{"[]", value, false, within})
			}
			for i, part := range list {
				*out = append(*out, below{"[" + strconv.Itoa(i) + "]", part, false, within})
			}
		case "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties":
			if isObject {
				*out = append(*out, below{"(" + keyword + ")", value, false, within})
			} else {
				*words = append(*words, keyword+" "+jsonOf(value))
			}
		case "maximum":
			*words = append(*words, "at most "+jsonOf(value))
		case "minimum":
			*words = append(*words, "at least "+jsonOf(value))
		default:
			if !slices.Contains(described, keyword) {
				*words = append(*words, keyword+" "+jsonOf(value))
			}
		}
	}
}

// inOrder are the keywords: the type, the values, what else restricts them, and the default.
func inOrder(s map[string]any) []string {
	place := map[string]int{"type": -2, "enum": -1, "default": 1}
	keywords := slices.Sorted(maps.Keys(s))
	slices.SortStableFunc(keywords, func(a, b string) int { return place[a] - place[b] })
	return keywords
}

// texts are the strings of a string or a list.
func texts(v any) []string {
	if text, ok := v.(string); ok {
		return []string{text}
	}
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// at is the part of the document that a reference names, by a JSON pointer.
func (w *walk) at(ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	at := w.doc
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			if at, ok = v[step]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
