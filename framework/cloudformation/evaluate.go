package cloudformation

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/spotdrill/spotdrill/framework/logic"
)

// evaluation evaluates the intrinsic functions of a template:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
type evaluation struct {
	*Template
	steps int
}

// mostSteps bounds the work for one resource: references can multiply.
const mostSteps = 100_000

// noValue removes the property that it is the value of.
type noValue struct{}

// value evaluates the functions in a value. What is not decided becomes a symbol.
func (e *evaluation) value(v any, depth int) any {
	e.steps++
	if depth > mostDepth || e.steps > mostSteps {
		return Symbol("a value that refers to itself")
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			if item = e.value(item, depth+1); item != (noValue{}) {
				list = append(list, item)
			}
		}
		return list
	case map[string]any:
		if len(v) == 1 {
			for name, argument := range v {
				if result, is := e.function(name, argument, depth+1); is {
					return result
				}
			}
		}
		m := make(map[string]any, len(v))
		for key, item := range v {
			if item = e.value(item, depth+1); item != (noValue{}) {
				m[key] = item
			}
		}
		return m
	}
	return v
}

// function calls an intrinsic function; is reports whether the name is that of one.
func (e *evaluation) function(name string, argument any, depth int) (result any, is bool) {
	undecided := Symbol(name)
	args := func() []any { list, _ := e.value(argument, depth).([]any); return list }
	switch name {
	case "Ref":
		to, _ := argument.(string)
		return e.reference(to, depth), true
	case "Fn::GetAtt":
		return e.getAtt(e.value(argument, depth), depth), true
	case "Fn::Sub":
		return e.sub(argument, depth), true
	case "Fn::Join":
		return join(args(), undecided), true
	case "Fn::Split":
		if a := args(); len(a) == 2 {
			separator, ok := a[0].(string)
			if text, textual := Text(a[1]); ok && textual && separator != "" {
				var parts []any
				for part := range strings.SplitSeq(text, separator) {
					parts = append(parts, part)
				}
				return parts, true
			}
		}
		return undecided, true
	case "Fn::Select":
		if a := args(); len(a) == 2 {
			index, _ := Text(a[0])
			i, err := strconv.Atoi(index)
			if list, ok := a[1].([]any); ok && err == nil && i >= 0 && i < len(list) {
				return list[i], true
			}
		}
		return undecided, true
	case "Fn::If":
		branches, _ := argument.([]any)
		if len(branches) != 3 {
			return undecided, true
		}
		condition, _ := branches[0].(string)
		switch e.condition(condition, depth) {
		case logic.Yes:
			return e.value(branches[1], depth), true
		case logic.No:
			return e.value(branches[2], depth), true
		}
		return Symbol("condition " + condition), true
	case "Fn::FindInMap":
		return e.findInMap(args(), undecided), true
	case "Fn::ToJsonString":
		text, err := json.Marshal(e.value(argument, depth))
		if err != nil {
			return undecided, true
		}
		return string(text), true
	case "Fn::ImportValue":
		text, _ := Text(e.value(argument, depth))
		return Symbol("import " + Printable(text)), true
	}
	return undecided, strings.HasPrefix(name, "Fn::")
}

func (e *evaluation) reference(to string, depth int) any {
	if to == "AWS::NoValue" {
		return noValue{}
	}
	if _, is := pseudo()[to]; is {
		return e.pseudo(to)
	}
	declared, is := e.section("Parameters")[to].(map[string]any)
	if !is {
		return e.attribute(to, "Ref", depth)
	}
	kind, _ := declared["Type"].(string)
	text, known := e.given[to]
	if !known && !strings.HasPrefix(kind, "AWS::SSM::") { // the default is the name of a value in SSM
		text, known = Text(declared["Default"])
	}
	if !known {
		return Symbol(parameter + to)
	}
	if kind == "CommaDelimitedList" || strings.HasPrefix(kind, "List<") {
		var list []any
		for part := range strings.SplitSeq(text, ",") {
			list = append(list, strings.TrimSpace(part))
		}
		return list
	}
	return text
}

// parameter begins the symbols of parameters without a value.
const parameter = "parameter "

// Parameters are the names of the parameters without a value that a value depends on.
func Parameters(v any) []string {
	var names []string
	for _, s := range Symbols(v) {
		if name, is := strings.CutPrefix(s, parameter); is {
			names = append(names, name)
		}
	}
	return names
}

func (e *evaluation) pseudo(name string) string {
	if text, given := e.given[name]; given {
		return text
	}
	if name == "AWS::Partition" && e.partition != "" {
		return e.partition
	}
	return Symbol(pseudo()[name])
}

func (e *evaluation) getAtt(argument any, depth int) any {
	var names []string
	for _, part := range List(argument) {
		text, _ := Text(part)
		names = append(names, text)
	}
	resource, attribute, _ := strings.Cut(strings.Join(names, "."), ".")
	return e.attribute(resource, attribute, depth)
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// sub replaces ${NAME} and ${NAME.ATTRIBUTE} in a text.
func (e *evaluation) sub(argument any, depth int) any {
	list := List(argument)
	if len(list) == 0 {
		return ""
	}
	text, ok := Text(list[0])
	if !ok {
		return Symbol("Fn::Sub")
	}
	var own map[string]any
	if len(list) > 1 {
		own, _ = list[1].(map[string]any)
	}
	size := len(text)
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		name := strings.TrimSpace(v[2 : len(v)-1])
		if literal, is := strings.CutPrefix(name, "!"); is {
			return "${" + literal + "}"
		}
		var value any
		switch _, isOwn := own[name]; {
		case isOwn:
			value = e.value(own[name], depth)
		case strings.Contains(name, ".") && !strings.Contains(name, "::"):
			value = e.getAtt(name, depth)
		default:
			value = e.reference(name, depth)
		}
		if text, ok := Text(value); ok && size+len(text) <= mostBytes {
			size += len(text)
			return text
		}
		return Symbol(name)
	})
}

func join(args []any, undecided string) any {
	if len(args) != 2 {
		return undecided
	}
	separator, ok := args[0].(string)
	list, isList := args[1].([]any)
	if !ok || !isList {
		return undecided
	}
	var out strings.Builder
	for i := range list {
		part, ok := Text(list[i])
		if !ok || out.Len()+len(part)+len(separator) > mostBytes {
			return undecided
		}
		if i > 0 {
			out.WriteString(separator)
		}
		out.WriteString(part)
	}
	return out.String()
}

func (e *evaluation) findInMap(args []any, undecided string) any {
	if len(args) < 3 {
		return undecided
	}
	var at any = e.section("Mappings")
	for _, key := range args[:3] {
		text, _ := Text(key)
		m, _ := at.(map[string]any)
		found, has := m[text]
		if !has {
			return undecided
		}
		at = found
	}
	return at
}

// condition evaluates a condition by its name.
func (e *evaluation) condition(name string, depth int) logic.Truth {
	of, has := e.section("Conditions")[name]
	if !has {
		return logic.Maybe
	}
	return e.truth(of, depth+1)
}

func (e *evaluation) truth(v any, depth int) logic.Truth {
	e.steps++
	if depth > mostDepth || e.steps > mostSteps {
		return logic.Maybe
	}
	m, _ := v.(map[string]any)
	for name, argument := range m {
		list := List(argument)
		switch name {
		case "Condition":
			text, _ := argument.(string)
			return e.condition(text, depth)
		case "Fn::Equals":
			if len(list) != 2 {
				return logic.Maybe
			}
			a, okA := Text(e.value(list[0], depth))
			b, okB := Text(e.value(list[1], depth))
			if !okA || !okB {
				return logic.Maybe
			}
			return Equal(a, b)
		case "Fn::Not":
			if len(list) != 1 {
				return logic.Maybe
			}
			return e.truth(list[0], depth+1).Not()
		case "Fn::And":
			all := logic.Yes
			for _, of := range list {
				all = min(all, e.truth(of, depth+1))
			}
			return all
		case "Fn::Or":
			one := logic.No
			for _, of := range list {
				one = max(one, e.truth(of, depth+1))
			}
			return one
		}
	}
	return logic.Maybe
}
