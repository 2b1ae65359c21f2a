package strict

import "go.yaml.in/yaml/v4"

// The kinds of files that are mistaken for each other.
const (
	Scenario         = "Scenario"
	HandlerUnderTest = "HandlerUnderTest"
)

// KindOf is the kind that a YAML document has, "" if it has none or is no YAML: so that a file of another
// kind is recognized before its fields are refused.
func KindOf(data []byte) string {
	var head struct {
		Kind string `yaml:"kind"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return ""
	}
	return head.Kind
}
