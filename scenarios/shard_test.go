package scenarios_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

func TestShardsAreRead(t *testing.T) {
	for text, want := range map[string]Shard{"": {}, "1/1": {1, 1}, "2/4": {2, 4}, "12/12": {12, 12}} {
		if got, err := ParseShard(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0/4", "5/4", "-1/4", "1", "1/", "/4", "1/0", "a/b", "1/4/2", " 1/4", "1/4 ", "01/4", "+1/4"} {
		if got, err := ParseShard(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestEveryScenarioIsInOneShardAndAllTakeAsLong(t *testing.T) {
	all, err := verdict.Scenarios().Select(Full, nil)
	if err != nil {
		t.Fatal(err)
	}
	place, expected := map[string]int{}, map[string]time.Duration{}
	for i, s := range all {
		place[s.Name], expected[s.Name] = i, s.Expected(Full)
	}
	about := func(s Scenario) time.Duration { return expected[s.Name] }
	for _, count := range []int{1, 2, 4, 7, 8} {
		var together []string
		var least, most time.Duration
		for i := range count {
			var names []string
			var takes time.Duration
			for _, s := range (Shard{i + 1, count}).Of(all, about) {
				names = append(names, s.Name)
				takes += about(s)
			}
			if !slices.IsSortedFunc(names, func(a, b string) int { return place[a] - place[b] }) {
				t.Errorf("of %d shards, the %dth plays %v, which is out of order", count, i+1, names)
			}
			together = append(together, names...)
			if least == 0 || takes < least {
				least = takes
			}
			most = max(most, takes)
		}
		slices.Sort(together)
		if len(together) != len(all) || len(slices.Compact(together)) != len(all) {
			t.Errorf("%d shards have %d scenarios, want each of %d once", count, len(together), len(all))
		}
		if most-least > time.Minute {
			t.Errorf("of %d shards, one takes %s and another %s", count, least, most)
		}
	}
}

func TestMoreShardsThanScenarios(t *testing.T) {
	some := []Scenario{{Name: "a"}, {Name: "b"}}
	played := 0
	for i := range 5 {
		played += len(Shard{i + 1, 5}.Of(some, func(Scenario) time.Duration { return time.Second }))
	}
	if played != len(some) {
		t.Errorf("%d played, want %d", played, len(some))
	}
}

// What is not played takes no time, and must not be lost.
func TestSkippedScenariosAreInAShardToo(t *testing.T) {
	var all []Scenario
	for i := range 9 {
		all = append(all, Scenario{Name: strconv.Itoa(i)})
	}
	played := 0
	for i := range 3 {
		played += len(Shard{i + 1, 3}.Of(all, func(Scenario) time.Duration { return 0 }))
	}
	if played != len(all) {
		t.Errorf("%d of %d are in a shard", played, len(all))
	}
}
