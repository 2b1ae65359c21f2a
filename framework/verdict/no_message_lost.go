package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

var checkNoneLost = ifApplicable(Kind{
	ID: "noMessageLost", Title: "no message lost",
	Requires: "Every message that was put is deleted by the handler, or is in the queue at the end, or has expired there as the drill wanted it.",
	Fix:      "only the handler under test may take messages from its queue: look in the queue's calls for another reader, a purge, or a deletion of what was not handled",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler, and the sqs.call and sqs.delete events of history.jsonl: who took the message?"},
}, func(j judge, v Verdict) (Verdict, bool) {
	if j.History.Meta.Handler.ReadsMetadata() {
		return v, false
	}
	return noneLost(j, v), true
})

// noneLost checks whether every message is accounted for: deleted by the handler,
// or in the queue at the end.
func noneLost(j judge, v Verdict) Verdict {
	v = v.requires("every message deleted by the handler, or in the queue at the end")
	depth, ok := j.Depth()
	if !ok {
		return v.unknown("the history does not show how many messages were left")
	}
	n := j.Account()
	left := int(depth.Numbers[history.Visible] + depth.Numbers[history.Invisible])
	v.Numbers = map[string]float64{"put": float64(n.Put), "deleted": float64(n.Put - len(n.Undeleted)), "left": float64(left)}
	rest := fmt.Sprintf("%d left", left)
	if expired := story.Expired(j.Story); expired > 0 {
		v.Numbers["expired"] = float64(expired)
		rest += fmt.Sprintf(", %d expired", expired)
		left += expired
	}
	missing := len(n.Kept) + len(n.Unseen)
	if why := j.Unrecorded(j.End); why != "" {
		return v.unknown("deletions: "+why, depth)
	}
	if missing > 0 && left > 0 && history.SharedCluster(j.Events) {
		return v.unknown(fmt.Sprintf("%d of %d were not deleted, and the %d in the queue may be another drill's", len(n.Undeleted), n.Put, left), depth)
	}
	evidence := append(capped(slices.Concat(n.Undeleted, n.Kept)), depth)
	switch {
	case missing <= left && (len(n.Unseen) == 0 || missing+n.Again <= left):
		return v.pass(fmt.Sprintf("%d put, %d deleted, %s", n.Put, n.Put-len(n.Undeleted), rest), depth)
	case missing <= left:
		return v.unknown(fmt.Sprintf("%d of %d were not deleted, and the %d in the queue may be messages that came again after they were deleted", len(n.Undeleted), n.Put, left), evidence...)
	case len(n.Undeleted) == 0:
		return v.fail(fmt.Sprintf("message %s was not deleted, and %d were in the queue", n.Kept[0].Message, left), evidence...)
	}
	return v.fail(fmt.Sprintf("%d of %d were not deleted, and %d were in the queue", len(n.Undeleted), n.Put, left), evidence...)
}
