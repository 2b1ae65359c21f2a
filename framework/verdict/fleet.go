package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ofFleet judges the same of each node of the fleet that a notice names: the verdict is the worst, with how many pass. A node
// that has nothing to judge, since the scheduler put no pod there, does not count.
func (j judge) ofFleet(v Verdict, notice string, judged func(node string) Verdict) Verdict {
	v = v.requires(fmt.Sprintf("of every node of the fleet that notice %q names", notice), scenarios.FleetNodes)
	var worst Verdict
	nodes, passed, slowest := 0, 0, map[string]float64{}
	for _, put := range j.AllOf(history.NoticePut) {
		if put.Step() != notice || !j.isNode(scenarios.FleetNodes, put.Node) {
			continue
		}
		found := judged(j.Role(put.Node))
		if pods, counted := found.Numbers[podsToLeave]; counted && pods == 0 {
			continue
		}
		nodes++
		if found.Outcome == Pass {
			passed++
		}
		for name, value := range found.Numbers {
			if strings.HasSuffix(name, "_seconds") {
				slowest[name] = max(slowest[name], value)
			}
		}
		if worst.Outcome == "" || found.Outcome.Worse(worst.Outcome) || worst.Outcome == Pass && found.slower(worst) {
			worst = found
		}
	}
	if nodes == 0 {
		return v.unknown(fmt.Sprintf("notice %q named no node of the fleet with anything to judge", notice))
	}
	slowest["nodes"], slowest["nodes_passed"] = float64(nodes), float64(passed)
	worst.Check, worst.Subject, worst.Numbers = strings.ReplaceAll(worst.Check, worst.Subject, v.Subject), v.Subject, slowest
	worst.Got = fmt.Sprintf("%d of %s; %s", passed, history.Count(nodes, "node"), worst.Got)
	return worst
}

// slower reports whether one passing verdict took longer than another.
func (v Verdict) slower(than Verdict) bool {
	for name, value := range v.Numbers {
		if strings.HasSuffix(name, "_seconds") && value > than.Numbers[name] {
			return true
		}
	}
	return false
}
