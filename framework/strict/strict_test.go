package strict

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// recipe has every shape that occurs in documents.
type recipe struct {
	Name  string            `yaml:"name"`
	Oven  oven              `yaml:"oven,omitempty"`
	Steps []step            `yaml:"steps,omitempty"`
	Bowls map[string]oven   `yaml:"bowls,omitempty"`
	Notes map[string]string `yaml:"notes,omitempty"`
	Next  *recipe           `yaml:"next,omitempty"`
	Chef  string            `yaml:"-"`
}

type oven struct {
	Degrees int      `yaml:"degrees"`
	For     Duration `yaml:"for,omitempty"`
}

type step struct {
	Stir *stir `yaml:"stir,omitempty"`
	Wait *wait `yaml:"wait,omitempty"`
}

type (
	stir struct {
		Times int `yaml:"times"`
	}
	wait struct {
		For Duration `yaml:"for"`
	}
)

func TestDecode(t *testing.T) {
	const text = `
name: bread
oven: {degrees: 220, for: 40m}
steps:
  - stir: {times: 3}
  - wait: {for: 1h30m}
bowls:
  big: &big {degrees: 20}
  small: *big
notes: {anything: goes}
next:
`
	var got recipe
	if err := Decode("bread.yaml", []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := recipe{
		Name: "bread", Oven: oven{220, Duration(40 * time.Minute)},
		Steps: []step{{Stir: &stir{3}}, {Wait: &wait{Duration(90 * time.Minute)}}},
		Bowls: map[string]oven{"big": {Degrees: 20}, "small": {Degrees: 20}},
		Notes: map[string]string{"anything": "goes"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "f.yaml:1: the file is empty"},
		"only a comment": {"# nothing\n", "f.yaml:1: the file is empty"},
		"unknown field":  {"name: x\nnmae: y\n", `f.yaml:2: unknown field "nmae" in the document; did you mean "name"? allowed: bowls, name, next, notes, oven, steps`},
		"several": {"nmae: y\noven:\n  degree: 3\n  for: 5\nsteps:\n  - stir: {tmes: 1}\n  -\n  - bake: {}\nbowls: [big]\n", "f.yaml:1: unknown field \"nmae\" in the document; did you mean \"name\"? allowed: bowls, name, next, notes, oven, steps\n" +
			"f.yaml:3: unknown field \"degree\" in oven; did you mean \"degrees\"? allowed: degrees, for\n" +
			"f.yaml:4: \"5\" is not a duration; write a number with its unit, such as 500ms, 5s or 2m\n" +
			"f.yaml:6: unknown field \"tmes\" in stir; did you mean \"times\"? allowed: times\nf.yaml:7: an item of steps is empty\n" +
			"f.yaml:8: unknown field \"bake\" in steps; allowed: stir, wait\nf.yaml:9: bowls must be a mapping"},
		"field that YAML skips":   {"Chef: x\n", `f.yaml:1: unknown field "Chef" in the document; allowed: bowls, name, next, notes, oven, steps`},
		"nested":                  {"oven:\n  degree: 3\n", `f.yaml:2: unknown field "degree" in oven; did you mean "degrees"? allowed: degrees, for`},
		"behind a pointer":        {"next:\n  next:\n    nam: x\n", `f.yaml:3: unknown field "nam" in next; did you mean "name"? allowed: bowls, name, next, notes, oven, steps`},
		"in a list":               {"steps:\n  - stir: {times: 1}\n  - bake: {}\n", `f.yaml:3: unknown field "bake" in steps; allowed: stir, wait`},
		"an empty item":           {"steps:\n  - stir: {times: 1}\n  -\n", "f.yaml:3: an item of steps is empty"},
		"in a map":                {"bowls:\n  big:\n    size: 3\n", `f.yaml:3: unknown field "size" in big; allowed: degrees, for`},
		"behind an alias":         {"notes: &n {size: x}\nbowls:\n  big: *n\n", `f.yaml:1: unknown field "size" in big; allowed: degrees, for`},
		"an alias of itself":      {"next: &x\n  next: *x\n", "f.yaml:2: anchor 'x' value contains itself"},
		"merge key":               {"<<: {name: x}\n", `f.yaml:1: unknown field "<<" in the document; allowed: bowls, name, next, notes, oven, steps`},
		"field twice":             {"name: x\nname: y\n", `f.yaml:2: mapping key "name" already defined at line 1`},
		"field twice, nested":     {"oven:\n  degrees: 1\n  degrees: 2\n", `f.yaml:3: mapping key "degrees" already defined at line 2`},
		"two documents":           {"name: x\n---\nname: y\n", "f.yaml:2: only one YAML document is allowed in a file"},
		"a list":                  {"- name: x\n", "f.yaml:1: the document must be a mapping with any of: bowls, name, next, notes, oven, steps"},
		"a scalar for a mapping":  {"name: x\noven: hot\n", "f.yaml:2: oven must be a mapping with any of: degrees, for"},
		"a mapping for a list":    {"name: x\nsteps: {stir: {}}\n", "f.yaml:2: steps must be a list"},
		"a list for a map":        {"name: x\nbowls: [big]\n", "f.yaml:2: bowls must be a mapping"},
		"a word for a number":     {"oven: {degrees: hot}\n", "f.yaml:1: cannot construct !!str `hot` into int"},
		"a fraction for a number": {"oven: {degrees: 1.5}\n", "f.yaml:1: cannot construct !!float `1.5` into int"},
		"not YAML":                {"name: [x\n", "f.yaml:2: did not find expected ',' or ']'"},
		"two mistakes of type":    {"oven: {degrees: hot}\nbowls: {big: {degrees: cold}}\n", "f.yaml:1: cannot construct !!str `hot` into int\nf.yaml:2: cannot construct !!str `cold` into int"},
	} {
		t.Run(name, func(t *testing.T) {
			var out recipe
			err := Decode("f.yaml", []byte(c.text), &out)
			if err == nil {
				t.Fatal("decodes")
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}

// The fields of an inline struct are written among those of its parent, and a time is a
// value.
func TestInlineFieldsAndTimes(t *testing.T) {
	type menu struct {
		Main   recipe    `yaml:",inline"`
		Served time.Time `yaml:"served"`
	}
	var m menu
	if err := Decode("menu.yaml", []byte("name: bread\nserved: 2026-01-02T15:04:05Z\n"), &m); err != nil {
		t.Fatal(err)
	}
	if m.Main.Name != "bread" || m.Served.Year() != 2026 {
		t.Errorf("read %+v", m)
	}
	if err := Decode("menu.yaml", []byte("nmae: bread\n"), &m); err == nil || !strings.Contains(err.Error(), `unknown field "nmae" in the document; did you mean "name"? allowed: bowls, name`) {
		t.Errorf("error %v", err)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "5s": 5 * time.Second, "1m30s": 90 * time.Second, "0s": 0, "1.5s": 1500 * time.Millisecond,
	} {
		var out oven
		if err := Decode("f.yaml", []byte("for: "+text), &out); err != nil || out.For.D() != want {
			t.Errorf("%s: %s (%v), want %s", text, out.For.D(), err, want)
		}
	}
	for _, text := range []string{"5", "0", "-5s", "five", "''", "[5s]", "{a: 5s}", "5 s", "~"} {
		out := oven{For: -1}
		err := Decode("f.yaml", []byte("\nfor: "+text), &out)
		if err == nil {
			if text == "~" && out.For == -1 {
				continue // a null leaves the field as it was
			}
			t.Errorf("%s is read as %s", text, out.For.D())
			continue
		}
		if !strings.HasPrefix(err.Error(), "f.yaml:2: ") || !strings.Contains(err.Error(), "is not a duration; write a number with its unit, such as 500ms, 5s or 2m") {
			t.Errorf("%s: %v", text, err)
		}
	}
	out, err := yaml.Marshal(oven{Degrees: 1, For: Duration(90 * time.Second)})
	if err != nil || string(out) != "degrees: 1\nfor: 1m30s\n" {
		t.Errorf("written as %q (%v)", out, err)
	}
}

func TestOnly(t *testing.T) {
	for name, c := range map[string]struct {
		of    step
		name  string
		value any
		err   string
	}{
		"the first":  {of: step{Stir: &stir{Times: 3}}, name: "stir", value: stir{Times: 3}},
		"the second": {of: step{Wait: &wait{}}, name: "wait", value: wait{}},
		"none":       {err: "nothing is set; requires exactly one of: stir, wait"},
		"both":       {of: step{Stir: &stir{}, Wait: &wait{}}, err: "stir and wait are set; requires exactly one of: stir, wait"},
	} {
		for _, v := range []any{c.of, &c.of} {
			field, value, err := Only(v)
			if field != c.name || value != c.value || (err != nil || c.err != "") && (err == nil || err.Error() != c.err) {
				t.Errorf("%s of %T: %q, %v, %v; want %q, %v, %s", name, v, field, value, err, c.name, c.value, c.err)
			}
		}
	}
}

func TestLine(t *testing.T) {
	const text = `name: bread
oven:
  degrees: 220
steps:
  - stir:
      times: 3
  - wait: {for: 5s}
bowls: &b
  big: {degrees: 1}
notes: *b
`
	for path, want := range map[string]int{
		"": 1, "name": 1, "oven": 2, "oven.degrees": 3, "oven.for": 2, "steps": 4, "steps[0]": 5, "steps[0].stir.times": 6,
		"steps[1].wait.for": 7, "steps[2]": 4, "steps[x]": 4, "bowls.big.degrees": 9, "notes.big": 9, "none": 1, "name.none": 1,
	} {
		if got := Line([]byte(text), path); got != want {
			t.Errorf("%q is at line %d, want %d", path, got, want)
		}
	}
	for _, text := range []string{"", "[", "x"} {
		if got := Line([]byte(text), "a.b"); got != 1 {
			t.Errorf("in %q at line %d", text, got)
		}
	}
}
