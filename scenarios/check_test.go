package scenarios

import (
	"reflect"
	"slices"
	"testing"
)

// Loading a check relies on it.
func TestEveryCheckIsAKindOfCheck(t *testing.T) {
	for field := range fields[Check]() {
		if !field.Type.Elem().Implements(reflect.TypeFor[checkKind]()) {
			t.Errorf("%s of a check: %s lacks a method of checkKind", field.Name, field.Type.Elem())
		}
	}
}

func TestKindOfACheck(t *testing.T) {
	once := DrainedOnce{Node: "victim"}
	for name, c := range map[string]struct {
		check Check
		id    string
		value any
	}{
		"one":     {Check{DrainedOnce: &once}, "drainedOnce", once},
		"nothing": {Check{}, "", nil},
		"two":     {Check{DrainedOnce: &once, NoEviction: &NoEviction{}}, "", nil},
	} {
		if id, value := c.check.Kind(); id != c.id || !reflect.DeepEqual(value, c.value) {
			t.Errorf("%s: %q %v, want %q %v", name, id, value, c.id, c.value)
		}
	}
}

func TestNodesThatAreDrainedForANotice(t *testing.T) {
	s := Scenario{Checks: []Check{
		{Drained: &Drained{Node: "first", Notice: "reclaim"}},
		{Drained: &Drained{Node: "second", Notice: "reclaim"}},
		{Drained: &Drained{Node: "third", Notice: "other"}},
		{Marked: &Marked{Node: "third", Notice: "reclaim"}},
	}}
	if got := s.DrainsFor("reclaim"); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("drained: %v", got)
	}
}
