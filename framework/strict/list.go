package strict

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v4"
)

// List is one word or a list of them.
type List[T ~string] []T

// UnmarshalYAML reads either.
func (l *List[T]) UnmarshalYAML(node *yaml.Node) error {
	words := []string{node.Value}
	if node.Kind != yaml.ScalarNode {
		words = nil
		if err := node.Decode(&words); err != nil {
			return err
		}
	}
	if len(words) == 0 || slices.Contains(words, "") {
		return errors.New("must be a word or a list of words, none of them empty")
	}
	for _, word := range words {
		*l = append(*l, T(word))
	}
	return nil
}
