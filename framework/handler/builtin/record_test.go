package builtin

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/record"
)

// replica is a handler that resumes drains until it is stopped, which is when the
// drains of its own end too.
func replica(t *testing.T, c *cluster) (d *dispatcher, events *record.FakeRecorder, stop func()) {
	t.Helper()
	d, events = newHandler(t, c, &sqsServer{})
	ctx, cancel := context.WithCancel(t.Context())
	d.drainCtx = ctx
	d.drains.Go(func() { d.resume(ctx) })
	synctest.Wait() // it has looked once
	return d, events, func() { cancel(); d.drains.Wait() }
}

// blockedCluster has a node whose one pod no eviction gets away.
func blockedCluster() *cluster {
	c := newCluster(spotNode("spot-1", victim), pod("db"))
	c.blocked["db"] = time.Now().Add(time.Hour)
	return c
}

func TestARestartResumesUnfinishedDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), spotNode("spot-2", "i-2"), pod("web"), pod("db"))
		c.blocked["db"] = time.Now().Add(10 * time.Second)
		d, _, kill := replica(t, c)
		d.handle(t.Context(), message(spot))
		time.Sleep(5 * time.Second)
		kill()

		_, events, stop := replica(t, c)
		time.Sleep(time.Second)
		if got := reasons(sent(events)); !slices.Contains(got, "DrainResumed") {
			t.Errorf("events %q a second after the start", got)
		}
		time.Sleep(7 * time.Second)
		stop()
		if r, _ := recordOf(c.node(t, "spot-1")); r.State != stateDrained {
			t.Errorf("record = %+v, want it drained", r)
		}

		_, events, stop = replica(t, c)
		time.Sleep(time.Minute)
		stop()
		if got := sent(events); len(got) > 0 || tainted(c.node(t, "spot-2")) {
			t.Errorf("a drained or untouched node was taken up again: %q", got)
		}
	})
}

// The pod that stays has started before the one that goes got its last notice.
func TestOneReplicaTakesOverWhatAnotherOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), pod("web"), pod("db"))
		c.blocked["db"] = time.Now().Add(time.Minute)
		leaving, _, leave := replica(t, c)
		_, first, stopFirst := replica(t, c)
		_, second, stopSecond := replica(t, c)
		leaving.handle(t.Context(), message(spot))
		time.Sleep(7500 * time.Millisecond) // between two looks
		leave()
		time.Sleep(abandonedAfter + resumeEvery)
		asked := len(c.asked())
		time.Sleep(10 * time.Second)
		if n := len(c.asked()) - asked; n != 10 {
			t.Errorf("asked %d times in 10 s, want 10 by one handler", n)
		}
		time.Sleep(30 * time.Second)
		stopFirst()
		stopSecond()
		if r, _ := recordOf(c.node(t, "spot-1")); r.State != stateDrained {
			t.Errorf("record = %+v, want it drained", r)
		}
		got := slices.Sorted(slices.Values(reasons(slices.Concat(sent(first), sent(second)))))
		if !slices.Equal(got, []string{"DrainResumed", "Drained", "EvictionBlocked"}) {
			t.Errorf("the two that stay announced %v", got)
		}
	})
}

func TestAReplicaLeavesADrainThatAnotherOneWorksOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := blockedCluster()
		d, _, stop := replica(t, c)
		other, events, stopOther := replica(t, c)
		d.handle(t.Context(), message(spot))
		for range 10 { // beyond the notice's life, when it looks seldom
			time.Sleep(30 * time.Second)
			other.handle(t.Context(), message(another(state("stopping"))))
		}
		stop()
		stopOther()
		if got := sent(events); len(got) > 0 {
			t.Errorf("the other replica announced %q", got)
		}
	})
}

func TestAHandlerDoesNotResumeWhatItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := blockedCluster()
		d, events, stop := replica(t, c)
		d.handle(t.Context(), message(spot))
		time.Sleep(time.Second / 2)
		d.adoptAll(t.Context(), 0) // as if evictions had held up its word
		time.Sleep(10 * time.Second)
		stop()
		if n := len(c.asked()); n != 11 || slices.Contains(reasons(sent(events)), "DrainResumed") {
			t.Errorf("asked %d times within 10 s", n)
		}
	})
}

func TestARestoredNodeLosesItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := blockedCluster()
		d, events, stop := replica(t, c)
		d.handle(t.Context(), message(spot))
		time.Sleep(3 * time.Second)
		c.uncordon(t, "spot-1")
		time.Sleep(resumeEvery)
		if left, ok := c.node(t, "spot-1").Annotations[drainingAnnotation]; ok {
			t.Errorf("the record is left: %s", left)
		}
		c.cordon(t, "spot-1")
		sent(events)
		asked := len(c.asked())
		time.Sleep(time.Minute)
		stop()
		if got := sent(events); len(got) > 0 || len(c.asked()) != asked {
			t.Errorf("a node that was cordoned by hand is drained: %q", got)
		}
	})
}
