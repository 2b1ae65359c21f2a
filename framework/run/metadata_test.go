package run

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/scenarios"
)

// What was announced before stays announced.
func TestWhatMetadataAnnounces(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := imds.Announced{}
	for _, n := range []scenarios.Notice{
		{Type: history.RebalanceRecommendation},
		{Type: history.SpotInterruption, Action: "stop"},
		{Type: history.ScheduledChange},
		{Type: history.ScheduledChange},
	} {
		a = announcing(a, n, at, 2*time.Minute)
	}
	if a.Rebalance == nil || !a.Rebalance.Equal(at) {
		t.Errorf("recommended at %v", a.Rebalance)
	}
	if a.Spot == nil || a.Spot.Action != "stop" || !a.Spot.Time.Equal(at.Add(2*time.Minute)) {
		t.Errorf("spot %+v", a.Spot)
	}
	if len(a.Scheduled) != 2 || !a.Scheduled[0].NotBefore.Equal(at.Add(2*time.Minute)) || !a.Scheduled[0].NotAfter.After(a.Scheduled[0].NotBefore) {
		t.Errorf("scheduled %+v", a.Scheduled)
	}
	if a := announcing(imds.Announced{}, scenarios.Notice{Type: history.SpotInterruption}, at, time.Minute); a.Spot.Action != "terminate" {
		t.Errorf("an interruption without an action is to %s", a.Spot.Action)
	}
}

func TestWhatAPathAnnounces(t *testing.T) {
	for path, want := range map[string]history.NoticeType{
		imds.SpotPath: history.SpotInterruption, imds.TerminationPath: history.SpotInterruption,
		imds.RebalancePath: history.RebalanceRecommendation, imds.ScheduledPath: history.ScheduledChange,
	} {
		if got := noticeAt(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestTheNodesOfTheHandlersPods(t *testing.T) {
	pod := func(node string) corev1.Pod { return corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }
	if got := nodesOf([]corev1.Pod{pod("b"), pod(""), pod("a"), pod("b")}); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
}
