package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAddonDiffOfSchemas(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	former := file("former.json", `{"additionalProperties": false, "properties": {"a": {"type": "string"}, "old": {"type": "string"}}}`)
	next := file("next.json", `{"additionalProperties": false, "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}}`)
	wider := file("wider.json", `{"additionalProperties": false, "properties": {"a": {"type": "string"}, "old": {"type": "string"}, "b": {"type": "boolean"}}}`)
	values := file("values.json", `{"old": "x"}`)
	manifest := file("manifest.yaml", "a: [")
	mine := file("mine.yaml", "old: x # mine\n")
	answer := file("describe-addon.json", `{"addon": {"addonName": "a", "configurationValues": "{\"old\": \"x\"}"}}`)
	for name, c := range map[string]struct {
		args []string
		code int
		want string // on standard output, or the error
	}{
		"a value more and one less": {[]string{"--schema", former, "--schema", next}, exitFailed, ".b: new: boolean\n.old: no longer accepted (it was string)\n"},
		"a value more":              {[]string{"--schema", former, "--schema", wider}, 0, ".b: new: boolean\n"},
		"the same":                  {[]string{"--schema", former, "--schema", former}, 0, "both versions accept the same values\n"},
		"values that are refused":   {[]string{"--schema", former, "--schema", next, "--values", values}, exitFailed, "your values are refused: the values: additional properties 'old' not allowed\n"},
		"values as YAML":            {[]string{"--schema", former, "--schema", next, "--values", mine}, exitFailed, "your values are refused: the values: additional properties 'old' not allowed\n"},
		"values as EKS has them":    {[]string{"--schema", former, "--schema", next, "--values", answer}, exitFailed, "your values are refused: the values: additional properties 'old' not allowed\n"},
		"as JSON":                   {[]string{"--schema", former, "--schema", wider, "--json"}, 0, `"field": ".b"`},
		"nothing":                   {nil, exitUsage, "--manifest is missing"},
		"one schema":                {[]string{"--schema", former}, exitUsage, "given 1 time"},
		"both":                      {[]string{"--schema", former, "--manifest", manifest}, exitUsage, "cannot be used together"},
		"values alone":              {[]string{"--values", values, "--manifest", manifest}, exitUsage, "only allowed with --schema"},
		"no such schema":            {[]string{"--schema", former, "--schema", filepath.Join(dir, "none")}, exitUsage, "no such file"},
		"no schema":                 {[]string{"--schema", former, "--schema", values}, exitUsage, "no JSON schema"},
		"values that are no JSON":   {[]string{"--schema", former, "--schema", next, "--values", manifest}, exitUsage, "configuration values"},
		"no such manifest":          {[]string{"--manifest", filepath.Join(dir, "none")}, exitUsage, "no such file"},
		"no manifest":               {[]string{"--manifest", manifest}, exitUsage, "the manifest does not apply"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := newAddonCommand()
			cmd.SetArgs(append([]string{"diff"}, c.args...))
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err := cmd.ExecuteContext(t.Context())
			if got := exitCode(err); got != c.code {
				t.Errorf("exit code %d, want %d (%v)", got, c.code, err)
			}
			shown := out.String()
			if err != nil {
				shown += err.Error()
			}
			if !strings.Contains(shown, c.want) {
				t.Errorf("it shows %q, want %q", shown, c.want)
			}
		})
	}
}
