package scenarios

import (
	"fmt"
	"slices"
	"time"
)

// Shard is one of the equal parts that a run is split into, so that several machines can play it. The
// zero value is the whole run.
type Shard struct {
	Index, Count int // Index is 1 to Count
}

// ParseShard reads a shard such as 2/4. An empty text is the whole run.
func ParseShard(text string) (Shard, error) {
	var s Shard
	if text == "" {
		return s, nil
	}
	if _, err := fmt.Sscanf(text, "%d/%d", &s.Index, &s.Count); err != nil || s.String() != text || s.Index < 1 || s.Index > s.Count {
		return Shard{}, fmt.Errorf("shard %q: want INDEX/COUNT with an index from 1 to the count, such as 2/4", text)
	}
	return s, nil
}

// String is what ParseShard reads.
func (s Shard) String() string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

// Of returns the scenarios of the shard, in their order. Each is in exactly one shard, whichever
// machine splits them, and all shards take about as long: the longest are dealt first, each to the
// shard with the least so far. About is how long a scenario takes; 0 if it is not played.
func (s Shard) Of(all []Scenario, about func(Scenario) time.Duration) []Scenario {
	if s.Count == 0 {
		return all
	}
	byTime := make([]int, len(all))
	for i := range byTime {
		byTime[i] = i
	}
	slices.SortStableFunc(byTime, func(a, b int) int { return int(about(all[b]) - about(all[a])) })
	taken, mine := make([]time.Duration, s.Count), []int{}
	for _, i := range byTime {
		least := slices.Index(taken, slices.Min(taken))
		taken[least] += about(all[i])
		if least == s.Index-1 {
			mine = append(mine, i)
		}
	}
	slices.Sort(mine)
	out := make([]Scenario, len(mine))
	for i, of := range mine {
		out[i] = all[of]
	}
	return out
}
