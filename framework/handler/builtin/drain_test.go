package builtin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// start handles a spot notice for the victim; its drain goes on in the bubble.
func start(t *testing.T, c *cluster) (*dispatcher, func() []string) {
	t.Helper()
	d, events := newHandler(t, c, &sqsServer{})
	d.handle(t.Context(), message(spot))
	return d, func() []string { return sent(events) }
}

func TestABudgetIsRespectedAndAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), pod("web"), pod("db"))
		c.blocked["db"] = time.Now().Add(10*time.Second + time.Millisecond)
		begun := time.Now()
		d, events := start(t, c)
		d.drains.Wait()
		if n := len(c.asked()); n != 13 { // web once, db refused at 0..10 s and accepted at 11 s
			t.Errorf("%d evictions asked for: %v", n, c.asked())
		}
		if took := time.Since(begun); took < 11*time.Second || took > 13*time.Second {
			t.Errorf("drained after %s", took)
		}
		blocked := slices.DeleteFunc(events(), func(e string) bool { return !strings.Contains(e, "EvictionBlocked") })
		if len(blocked) != 1 || !strings.Contains(blocked[0], "default/db") {
			t.Errorf("a blocked pod must be reported once: %q", blocked)
		}
	})
}

// The API server answers 500 and no reason for a pod with two budgets. Without an answer,
// nothing was refused.
func TestWhatTheAPIServerRefusesIsReportedAndAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer   error
		reported int
	}{
		"two budgets": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}, 1},
		"no answer": {errors.New("connection reset by peer"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCluster(spotNode("spot-1", victim), pod("db"))
				k.blocked["db"], k.answer["db"] = time.Now().Add(3*time.Second+time.Millisecond), c.answer
				d, events := start(t, k)
				d.drains.Wait()
				if n := len(k.asked()); n != 5 { // refused at 0..3 s and accepted at 4 s
					t.Errorf("%d evictions asked for: %v", n, k.asked())
				}
				blocked := slices.DeleteFunc(events(), func(e string) bool { return !strings.Contains(e, "EvictionBlocked") })
				if len(blocked) != c.reported || c.reported > 0 && !strings.Contains(blocked[0], "default/db: This pod has more than one PodDisruptionBudget") {
					t.Errorf("reported %q, want %d events", blocked, c.reported)
				}
			})
		})
	}
}

// One that is given up may be counted against the budget and never be done.
func TestAnEvictionThatWasAskedForIsWaitedFor(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var abandoned atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that a client is gone
		stop()
		select {
		case <-r.Context().Done():
			abandoned.Store(true)
		case <-time.After(200 * time.Millisecond):
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d := &drainer{client: client, metrics: newMetrics(prometheus.NewRegistry()), log: slog.New(slog.DiscardHandler)}
	db := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	if err := d.evictPod(ctx, d.log, &db); err != nil || abandoned.Load() {
		t.Errorf("abandoned: %t (%v)", abandoned.Load(), err)
	}
}

// The scheduler may have decided before it heard of the mark.
func TestAPodThatIsBoundJustAfterTheMarkLeavesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim))
		d, _ := start(t, c)
		time.Sleep(500 * time.Millisecond)
		if err := c.Tracker().Add(pod("late")); err != nil {
			t.Fatal(err)
		}
		d.drains.Wait()
		if !slices.Equal(c.asked(), []string{"late"}) {
			t.Errorf("evicted %v", c.asked())
		}
	})
}

func TestASlowPodHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), pod("a-stubborn"), pod("b"), pod("c"))
		c.grace["a-stubborn"] = 5 * time.Minute
		d, _ := start(t, c)
		time.Sleep(3 * time.Second)
		if !slices.Contains(c.asked(), "b") || !slices.Contains(c.asked(), "c") {
			t.Errorf("after 3 s only %v were asked to leave", c.asked())
		}
		d.drains.Wait()
	})
}

func TestCriticalPodsFollow(t *testing.T) {
	dns := func() *corev1.Pod { return pod("dns", priority(criticalPriority)) }
	t.Run("when the others are gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(spotNode("spot-1", victim), dns(), pod("web"))
			c.grace["web"] = 8 * time.Second
			d, _ := start(t, c)
			time.Sleep(7 * time.Second)
			if slices.Contains(c.asked(), "dns") {
				t.Error("dns was evicted while web still used it")
			}
			d.drains.Wait()
			if !slices.Equal(c.asked(), []string{"web", "dns"}) {
				t.Errorf("evicted %v", c.asked())
			}
		})
	})
	t.Run("when their wait is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(spotNode("spot-1", victim), dns(), pod("web"))
			c.blocked["web"] = time.Now().Add(time.Hour)
			d, _ := start(t, c)
			time.Sleep(32 * time.Second)
			if !slices.Contains(c.asked(), "dns") {
				t.Error("dns waits for ever behind a blocked pod")
			}
			c.restore(t, "spot-1")
			d.drains.Wait()
		})
	})
}

func TestADrainEnds(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *cluster){
		"when the record is removed": func(t *testing.T, c *cluster) {
			t.Helper()
			node := c.node(t, "spot-1").DeepCopy()
			node.Annotations = nil
			c.store(node)
		},
		"when the marks are removed": func(t *testing.T, c *cluster) {
			t.Helper()
			node := c.node(t, "spot-1").DeepCopy()
			node.Spec.Unschedulable, node.Spec.Taints = false, nil
			c.store(node)
		},
		"when the node is deleted": func(t *testing.T, c *cluster) {
			t.Helper()
			_ = c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "spot-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(spotNode("spot-1", victim), pod("db"))
				c.blocked["db"] = time.Now().Add(time.Hour)
				d, _ := start(t, c)
				time.Sleep(3500 * time.Millisecond)
				change(t, c)
				asked := len(c.asked())
				d.drains.Wait()
				if len(c.asked()) != asked {
					t.Error("evictions went on")
				}
			})
		})
	}
}

func TestANodeRestoredAndInterruptedAgainWithinASecondIsDrainedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), pod("db"))
		c.blocked["db"] = time.Now().Add(time.Hour)
		d, _ := start(t, c)
		time.Sleep(500 * time.Millisecond)
		c.restore(t, "spot-1")
		d.handle(t.Context(), message(state("stopping")))
		time.Sleep(9800 * time.Millisecond)
		if n := len(c.asked()); n != 11 { // once by the first drain, ten times by the second
			t.Errorf("asked %d times in ten seconds", n)
		}
		c.restore(t, "spot-1")
		d.drains.Wait()
	})
}

func TestADrainTimesOutAndTheNextNoticeStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), pod("db"))
		c.blocked["db"] = time.Now().Add(25 * time.Second)
		d, _ := newHandler(t, c, &sqsServer{})
		d.drainer.timeout = 20 * time.Second
		settled(t, d, spot)
		if r, _ := recordOf(c.node(t, "spot-1")); r.State != stateTimedOut {
			t.Fatalf("record = %+v", r)
		}
		settled(t, d, state("stopping"))
		if r, _ := recordOf(c.node(t, "spot-1")); r.State != stateDrained || r.Cause != instanceStopping {
			t.Errorf("record = %+v", r)
		}
	})
}

func TestALongDrainLooksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(spotNode("spot-1", victim), pod("db"))
		c.blocked["db"] = time.Now().Add(24 * time.Hour)
		d, _ := newHandler(t, c, &sqsServer{})
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Minute)
		defer stop()
		d.drainCtx = ctx
		settled(t, d, spot)
		if n := len(c.asked()); n < 170 || n > 190 { // 121 in the first two minutes, 60 in ten more
			t.Errorf("asked %d times in 12 minutes", n)
		}
	})
}

// podOption changes a pod that would otherwise be a bare, running, ordinary one.
type podOption func(*corev1.Pod)

func pod(name string, options ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: "spot-1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func ownedBy(kind string) podOption {
	yes := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", Controller: &yes}}
	}
}

func phase(phase corev1.PodPhase) podOption {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func tolerating(toleration corev1.Toleration) podOption {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, toleration) }
}

func priority(value int32) podOption {
	return func(p *corev1.Pod) { p.Spec.Priority = &value }
}

func terminating(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp, p.Finalizers = &now, []string{"test/kept"}
}

func mirrored(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func TestWhichPodsHaveToLeave(t *testing.T) {
	for name, c := range map[string]struct {
		option podOption
		want   bool
	}{
		"a Deployment's pod leaves":        {ownedBy("ReplicaSet"), true},
		"a bare pod leaves":                {func(*corev1.Pod) {}, true},
		"a pod with an emptyDir leaves":    {withEmptyDir, true},
		"a pending pod leaves":             {phase(corev1.PodPending), true},
		"a terminating pod has to be gone": {terminating, true},
		"a critical pod leaves":            {priority(criticalPriority), true},
		"a pod that tolerates not-ready leaves": {
			tolerating(corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}), true,
		},
		"a pod that tolerates the taint's NoExecute only leaves": {
			tolerating(corev1.Toleration{Key: disruptedKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}), true,
		},
		"a daemon pod stays":          {ownedBy("DaemonSet"), false},
		"a static pod stays":          {mirrored, false},
		"a succeeded pod stays":       {phase(corev1.PodSucceeded), false},
		"a failed pod stays":          {phase(corev1.PodFailed), false},
		"a pod that tolerates it all": {tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}), false},
		"a pod that tolerates a cordon stays": {
			tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), false,
		},
		"a pod that tolerates the taint stays": {
			tolerating(corev1.Toleration{Key: disruptedKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := leaving(pod("p", c.option)); got != c.want {
				t.Errorf("leaving = %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhichPodsAreDue(t *testing.T) {
	web, job := pod("web"), pod("job")
	webLeaving := pod("web", terminating)
	dns, agent := pod("dns", priority(criticalPriority)), pod("agent", priority(criticalPriority+1000))
	dnsByName := pod("dns", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" })
	important := pod("important", priority(1_000_000_000))
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		waitOver bool
		want     []string
	}{
		"ordinary pods go first, all at once":           {[]*corev1.Pod{dns, web, job}, false, []string{"web", "job"}},
		"critical pods wait for those on their way out": {[]*corev1.Pod{dns, webLeaving}, false, nil},
		"critical pods go when no other is left":        {[]*corev1.Pod{dns, agent}, false, []string{"dns", "agent"}},
		"critical pods go when their wait is over":      {[]*corev1.Pod{dns, web}, true, []string{"dns", "web"}},
		"a user's highest priority is not critical":     {[]*corev1.Pod{important, dns}, false, []string{"important"}},
		"a priority class counts before admission":      {[]*corev1.Pod{web, dnsByName}, false, []string{"web"}},
		"nobody is evicted twice":                       {[]*corev1.Pod{webLeaving}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for _, p := range c.pods {
				pods = append(pods, *p)
			}
			var got []string
			for _, p := range due(pods, c.waitOver) {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("due = %v, want %v", got, c.want)
			}
		})
	}
}
