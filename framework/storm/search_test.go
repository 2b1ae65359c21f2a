package storm

import (
	"errors"
	"slices"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// A handler that survives so many nodes is found within a tenth, in few storms.
func TestSearch(t *testing.T) {
	t.Parallel()
	for survives := range MaxNodes + 10 {
		for _, most := range []int{1, 7, 50, 200, MaxNodes} {
			plays := 0
			passed, failed, err := search(t.Context(), most, func(nodes int) (verdict.Outcome, error) {
				plays++
				if nodes < 1 || nodes > most {
					t.Fatalf("a storm of %d nodes, of at most %d", nodes, most)
				}
				if nodes <= survives {
					return verdict.Pass, nil
				}
				return verdict.Fail, nil
			})
			want := min(survives, most)
			if err != nil || passed > want || failed > 0 && failed <= survives || survives >= most && passed != most || passed < want-max(1, want/10) || plays > 10 {
				t.Errorf("survives %d, at most %d: %d passed, %d failed, %d plays, %v", survives, most, passed, failed, plays, err)
			}
		}
	}
}

func TestEachSizeIsAScenario(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 10, UsualNodes, MaxNodes} {
		if _, err := (Options{Loader: verdict.Scenarios(), Pods: 5}).scenario(nodes); err != nil {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
}

// A storm that could not be judged, or an error, ends the search: nothing may be guessed.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	broken := errors.New("no cluster")
	for _, c := range []struct {
		outcome verdict.Outcome
		err     error
	}{{verdict.Unknown, nil}, {verdict.Skipped, nil}, {"", broken}} {
		var played []int
		passed, failed, err := search(t.Context(), 100, func(nodes int) (verdict.Outcome, error) {
			if played = append(played, nodes); nodes == 40 {
				return c.outcome, c.err
			}
			return verdict.Pass, nil
		})
		if passed != 20 || failed != 0 || !errors.Is(err, c.err) || !slices.Equal(played, []int{10, 20, 40}) {
			t.Errorf("%q: %d passed, %d failed, played %d, %v", c.outcome, passed, failed, played, err)
		}
	}
}
