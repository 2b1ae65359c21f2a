package cloudformation

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/logic"
)

// A symbol replaces a value in a text that only AWS decides. The runes around its name are for private use, so
// that no text of a template contains them.
const (
	begin = "\ue000"
	end   = "\ue001"
)

// generated begins the symbols of names that CloudFormation makes up: each is another one.
const generated = "generated name of "

// The symbols of pseudo parameters.
const (
	Account   = "account"
	Region    = "region"
	Partition = "partition"
	StackName = "stack name"
)

// generatedName is a name that CloudFormation makes up, with what it begins with.
var generatedName = regexp.MustCompile("[^:/]*" + begin + generated + "[^" + begin + end + "]*" + end)

var symbol = regexp.MustCompile(begin + "([^" + begin + end + "]*)" + end)

// Symbol is a text that consists of a symbol. Its name has no colon, at which ARNs are split.
func Symbol(name string) string {
	return begin + strings.ReplaceAll(strings.TrimPrefix(name, "Fn::"), ":", ".") + end
}

// Symbols are the names of the symbols in a value, sorted.
func Symbols(v any) []string {
	var names []string
	walk(v, func(text string) string {
		for _, m := range symbol.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return text
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// Replace is the value with texts in place of symbols. Names are those of symbols.
func Replace(v any, texts map[string]string) any {
	return walk(v, func(text string) string {
		return symbol.ReplaceAllStringFunc(text, func(s string) string {
			if with, known := texts[strings.Trim(s, begin+end)]; known {
				return with
			}
			return s
		})
	})
}

// walk is a copy of a value with each of its texts changed; keys as well.
func walk(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = walk(v[i], change)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[change(key)] = walk(value, change)
		}
		return m
	}
	return v
}

// Printable is a text with its symbols as <name>.
func Printable(text string) string { return symbol.ReplaceAllString(text, "<$1>") }

// Equal compares two texts that may have symbols.
func Equal(a, b string) logic.Truth {
	switch {
	case a == b:
		return logic.Yes
	case !strings.Contains(a+b, begin):
		return logic.No
	case distinct(a, b):
		return logic.No
	}
	return mayMeet(escape(a), escape(b))
}

// Matches compares a pattern with * and ? with a text. Both may have symbols.
func Matches(pattern, text string) logic.Truth {
	switch {
	case glob(pattern, text):
		return logic.Yes
	case !strings.Contains(pattern+text, begin) || distinct(pattern, text):
		return logic.No
	}
	return mayMeet(pattern, escape(text))
}

// Covers reports whether a pattern with * and ? matches all that another one matches; Maybe if it matches
// some of it. Both may have symbols.
func Covers(pattern, other string) logic.Truth {
	if glob(pattern, other) {
		return logic.Yes
	}
	return mayMeet(pattern, other)
}

// distinct reports whether two texts are the same but for names that are each another one.
func distinct(a, b string) bool {
	var names []string
	skeleton := func(text string) string {
		return generatedName.ReplaceAllStringFunc(text, func(name string) string {
			names = append(names, name)
			return begin
		})
	}
	skeletonA, ofA := skeleton(a), len(names)
	return skeletonA == skeleton(b) && ofA == 1 && len(names) == 2
}

// glob reports whether a pattern with * and ? matches a text.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, j, star, mark := 0, 0, -1, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// literal stands for a * or ? of a text that is no pattern.
const literalStar, literalMark = '\ue002', '\ue003'

func escape(text string) string {
	return strings.NewReplacer("*", string(literalStar), "?", string(literalMark)).Replace(text)
}

// mostCompared is the length of texts that are compared rune by rune; longer ones may be equal.
const mostCompared = 2000

// word stands for any text without a colon, such as a name or the number of an account.
const word = '\ue004'

// wildcards puts what a symbol can stand for in its place.
func wildcards(text string) []rune {
	return []rune(symbol.ReplaceAllStringFunc(text, func(s string) string {
		name := strings.Trim(s, begin+end)
		if strings.HasPrefix(name, generated) || slices.Contains([]string{Account, Region, Partition, StackName}, name) {
			return string(word)
		}
		return "*"
	}))
}

// mayMeet reports whether two patterns can match the same text, with anything in place of symbols.
func mayMeet(a, b string) logic.Truth {
	p, q := wildcards(a), wildcards(b)
	if len(p) > mostCompared || len(q) > mostCompared {
		return logic.Maybe
	}
	// meet[j] reports whether the rest of p and the rest of q from j can match the same text.
	meet, after := make([]bool, len(q)+1), make([]bool, len(q)+1)
	for i := len(p); i >= 0; i-- {
		meet, after = after, meet
		for j := len(q); j >= 0; j-- {
			switch {
			case i == len(p) && j == len(q):
				meet[j] = true
			case i < len(p) && (p[i] == '*' || p[i] == word):
				meet[j] = after[j] || j < len(q) && (p[i] == '*' || q[j] != ':') && meet[j+1]
			case j < len(q) && (q[j] == '*' || q[j] == word):
				meet[j] = meet[j+1] || i < len(p) && (q[j] == '*' || p[i] != ':') && after[j]
			default:
				meet[j] = i < len(p) && j < len(q) && (p[i] == q[j] || p[i] == '?' || q[j] == '?') && after[j+1]
			}
		}
	}
	if meet[0] {
		return logic.Maybe
	}
	return logic.No
}
