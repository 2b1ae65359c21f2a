package builtin

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
}

func message(body string) types.Message {
	return types.Message{MessageId: aws.String("m"), Body: aws.String(body), ReceiptHandle: aws.String(body)}
}

// spot is a spot notice for the victim, the same each time.
var spot = ec2(spotType, one)

// settled handles the message and waits until every drain has ended.
func settled(t *testing.T, d *dispatcher, body string) {
	t.Helper()
	d.handle(t.Context(), message(body))
	d.drains.Wait()
}

func TestASpotNoticeDrainsItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web"), pod("agent", ownedBy("DaemonSet"))), &sqsServer{}
		d, events := newHandler(t, c, s)
		settled(t, d, spot)

		node := c.node(t, "spot-1")
		if !node.Spec.Unschedulable || !tainted(node) {
			t.Errorf("the node is not cordoned and tainted: %+v", node.Spec)
		}
		if node.Spec.Taints[0].Key != "own" {
			t.Errorf("the node's own taint is gone: %v", node.Spec.Taints)
		}
		if r, ok := recordOf(node); !ok || r.State != stateDrained || r.Cause != spotInterrupted || r.Notice != "notice-1" || r.Instance != victim {
			t.Errorf("record = %+v", r)
		}
		if !slices.Equal(c.asked(), []string{"web"}) {
			t.Errorf("evicted %v, want web", c.asked())
		}
		if !s.hasDeleted(spot) {
			t.Error("the message was not deleted")
		}
		if got, want := reasons(sent(events)), []string{"SpotInterrupted", "Draining", "Drained"}; !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

func TestAMessageIsDeletedOnlyOnceTheDrainIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
		recorded := false
		s.onDelete = func() { _, recorded = recordOf(c.node(t, "spot-1")) }
		d, _ := newHandler(t, c, s)
		settled(t, d, spot)
		if !recorded {
			t.Error("the message was deleted before the drain was recorded on the node")
		}
	})
}

func TestWhatBecomesOfOtherMessages(t *testing.T) {
	for name, c := range map[string]struct{ body, events string }{
		"not JSON":                   {"this is { not JSON", ""},
		"an unknown type":            {ec2("EC2 Something Else", one), ""},
		"an instance of elsewhere":   {ec2(spotType, `{"instance-id":"i-0fffffffffffffff0"}`), ""},
		"state running":              {state("running"), ""},
		"a rebalance recommendation": {ec2("EC2 Instance Rebalance Recommendation", one), "RebalanceRecommended"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
				d, events := newHandler(t, k, s)
				settled(t, d, c.body)
				if !s.hasDeleted(c.body) {
					t.Error("the message was not deleted")
				}
				if node := k.node(t, "spot-1"); node.ResourceVersion != "1" || len(k.asked()) > 0 {
					t.Errorf("the node was touched: %+v, evicted %v", node.Spec, k.asked())
				}
				if got := strings.Join(sent(events), ""); !strings.Contains(got, c.events) || (c.events == "") != (got == "") {
					t.Errorf("events %q, want %q", got, c.events)
				}
			})
		})
	}
}

// EC2 may announce the end of an instance whose node has not registered yet.
func TestANoticeBeforeItsNodeJoinsIsKept(t *testing.T) {
	for name, joins := range map[string]bool{"joins": true, "never joins": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
				d, _ := newHandler(t, c, s)
				node := c.node(t, "spot-1")
				_ = d.nodes.Delete(node)
				early := strings.Replace(spot, "2026-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339), 1)
				time.Sleep(joinWithin - 2*time.Second)
				settled(t, d, early)
				if s.hasDeleted(early) {
					t.Fatal("deleted although its node may still join")
				}
				time.Sleep(visibility)
				if joins {
					_ = d.nodes.Add(node)
				}
				settled(t, d, early)
				if !s.hasDeleted(early) {
					t.Error("not deleted when it was handled, or its node can no longer join")
				}
				if evicted := len(c.asked()) > 0; evicted != joins {
					t.Errorf("evicted %v", c.asked())
				}
			})
		})
	}
}

func TestADuplicateStartsNoSecondDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
		c.grace["web"] = 10 * time.Second
		d, _ := newHandler(t, c, s)
		d.handle(t.Context(), message(spot))
		time.Sleep(2 * time.Second)
		d.handle(t.Context(), message(another(state("stopping"))))
		d.drains.Wait()
		settled(t, d, another(state("terminated"))) // and one after the drain
		if len(c.asked()) != 1 || len(s.deleted) != 3 {
			t.Errorf("evicted %v, deleted %d of 3", c.asked(), len(s.deleted))
		}
		if r, _ := recordOf(c.node(t, "spot-1")); r.Cause != spotInterrupted {
			t.Errorf("the first notice's record was replaced: %+v", r)
		}
	})
}

func TestARestoredNodeIsDrainedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
		d, _ := newHandler(t, c, s)
		settled(t, d, spot)
		c.restore(t, "spot-1")
		_ = c.Tracker().Add(pod("web"))
		settled(t, d, spot)
		if len(c.asked()) != 2 {
			t.Errorf("evicted %v, want web twice", c.asked())
		}
	})
}

func TestAnAPIErrorLeavesTheMessageInTheQueue(t *testing.T) {
	for _, verb := range []string{"get", "patch"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
				failing := true
				c.PrependReactor(verb, "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return failing, nil, apierrors.NewInternalError(http.ErrServerClosed)
				})
				d, _ := newHandler(t, c, s)
				settled(t, d, spot)
				if len(s.deleted) != 0 || len(c.asked()) != 0 {
					t.Fatalf("deleted %v, evicted %v", s.deleted, c.asked())
				}
				failing = false
				settled(t, d, spot) // as SQS hands it out again
				if !s.hasDeleted(spot) || len(c.asked()) != 1 {
					t.Errorf("redelivered: deleted %v, evicted %v", s.deleted, c.asked())
				}
			})
		})
	}
}

func TestOfTwoReplicasOneDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
		c.beforePatch = func() { // the other replica is a little faster
			c.record(t, "spot-1", drainRecord{State: stateDraining, Notice: "notice-1", Since: time.Now().Add(-time.Millisecond).UTC()})
		}
		d, events := newHandler(t, c, s)
		settled(t, d, spot)
		if len(c.asked()) != 0 || !s.hasDeleted(spot) {
			t.Errorf("evicted %v, deleted %v; want the loser to delete its message and leave the drain alone", c.asked(), s.deleted)
		}
		if got := sent(events); len(got) > 0 {
			t.Errorf("the loser announced %q", got)
		}
	})
}

// The API server may have done what it was asked for although its answer never comes.
func TestALostAnswerLosesNoDrain(t *testing.T) {
	drainedAs := func(t *testing.T, c *cluster, events []string, want ...string) {
		t.Helper()
		if r, ok := recordOf(c.node(t, "spot-1")); !ok || r.State != stateDrained || !slices.Equal(c.asked(), []string{"web"}) {
			t.Errorf("record %+v, evicted %v", r, c.asked())
		}
		if got := reasons(events); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	}
	t.Run("where the API server answers the next call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
			c.afterPatch = func() error { return io.ErrUnexpectedEOF }
			d, events := newHandler(t, c, s)
			settled(t, d, spot)
			drainedAs(t, c, sent(events), "SpotInterrupted", "Draining", "Drained")
		})
	})
	t.Run("where it is silent until the message comes again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
			silent := false
			c.afterPatch = func() error { silent = true; return io.ErrUnexpectedEOF }
			c.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return silent, nil, io.ErrUnexpectedEOF
			})
			d, events := newHandler(t, c, s)
			settled(t, d, spot)
			if len(s.deleted) != 0 || len(c.asked()) != 0 {
				t.Fatalf("deleted %v, evicted %v", s.deleted, c.asked())
			}
			silent = false
			time.Sleep(visibility)
			settled(t, d, spot)
			drainedAs(t, c, sent(events), "DrainResumed", "Drained")
			if !s.hasDeleted(spot) {
				t.Error("the message that came again was not deleted")
			}
		})
	})
}

func TestANoticeAfterTheDrainsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		left  bool // a pod came to the node meanwhile
		again bool
	}{
		"the same one":                            {spot, true, false},
		"another one, where pods are left":        {another(spot), true, true},
		"another one, where none is left to move": {another(spot), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
				d, events := newHandler(t, k, s)
				settled(t, d, spot)
				sent(events)
				if c.left {
					_ = k.Tracker().Add(pod("late"))
				}
				settled(t, d, c.body)
				if again := slices.Contains(k.asked(), "late"); again != c.again || !s.hasDeleted(c.body) {
					t.Errorf("drained again: %t, evicted %v, deleted %v", again, k.asked(), s.deleted)
				}
				if announced := slices.Contains(reasons(sent(events)), "Draining"); announced != c.again {
					t.Errorf("announced again: %t, want %t", announced, c.again)
				}
			})
		})
	}
}

func TestAConflictWithSomebodyElsesChangeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web")), &sqsServer{}
		c.beforePatch = func() { c.store(c.node(t, "spot-1")) } // a kubelet's heartbeat
		d, _ := newHandler(t, c, s)
		settled(t, d, spot)
		if len(c.asked()) != 1 {
			t.Errorf("evicted %v, want web", c.asked())
		}
	})
}

func TestAScheduledChangeDrainsEveryEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", "i-1"), spotNode("spot-2", "i-2"), spotNode("spot-3", "i-3")), &sqsServer{}
		d, _ := newHandler(t, c, s)
		settled(t, d, health("EC2", "scheduledChange", `[{"entityValue":"i-1"},{"entityValue":"i-2"},{"entityValue":"i-9"}]`))
		for name, want := range map[string]bool{"spot-1": true, "spot-2": true, "spot-3": false} {
			if _, got := recordOf(c.node(t, name)); got != want {
				t.Errorf("%s drained: %v, want %v", name, got, want)
			}
		}
	})
}

func TestTheEndOfACapacityBlockDrainsItsNodes(t *testing.T) {
	const ending = `{"capacity-reservation-id":"cr-1","end-date":"2026-01-01T00:40:00Z"}`
	for name, c := range map[string]struct {
		detailType, reservation string
		drained                 bool
	}{
		"those in it":                {"Capacity Block Reservation Expiration Warning", "cr-1", true},
		"not those in another":       {"Capacity Block Reservation Expiration Warning", "cr-2", false},
		"not those in none":          {"Capacity Block Reservation Expiration Warning", "", false},
		"and no other reservation's": {"EC2 Capacity Reservation Expired", "cr-1", false},
		"and not one that has begun": {"Capacity Block Reservation Delivered", "cr-1", false},
		"nor one of a similar name":  {"capacity block reservation expiration warning", "cr-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := spotNode("spot-1", victim)
				if c.reservation != "" {
					node.Labels = map[string]string{reservationLabel: c.reservation}
				}
				cluster, s := newCluster(node, pod("web")), &sqsServer{}
				d, _ := newHandler(t, cluster, s)
				body := ec2(c.detailType, ending)
				settled(t, d, body)
				if r, ok := recordOf(cluster.node(t, "spot-1")); ok != c.drained || ok && (r.Cause != capacityBlockEnding || r.Instance != victim) {
					t.Errorf("record %+v, %v", r, ok)
				}
				if !s.hasDeleted(body) {
					t.Error("the message was not deleted")
				}
			})
		})
	}
}

func TestReceivingStopsAtOnceAndSettlesWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim)), &sqsServer{failing: map[string]int{"DeleteMessage": 2}}
		d, _ := newHandler(t, c, s)
		ctx, stop := context.WithCancel(t.Context())
		var ready atomic.Bool
		begun := time.Now()
		time.AfterFunc(time.Second, func() { s.put(spot) })
		time.AfterFunc(20100*time.Millisecond, stop) // just after the long poll's end
		d.receive(ctx, 10, &ready)
		d.drains.Wait()
		if !s.hasDeleted(spot) {
			t.Error("the message in hand was not deleted")
		}
		if took := time.Since(begun); took > 25*time.Second {
			t.Errorf("stopping took until %s", took)
		}
	})
}

func TestReadyDoesNotWaitForALongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(), &sqsServer{failing: map[string]int{"ReceiveMessage": 3}}
		d, _ := newHandler(t, c, s)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		var ready atomic.Bool
		time.AfterFunc(10*time.Millisecond, func() {
			if ready.Load() {
				t.Error("ready although no call has succeeded")
			}
		})
		d.receive(ctx, 10, &ready)
		if !ready.Load() {
			t.Error("not ready 5 s after the start")
		}
		if got := s.calls[len(s.calls)-1].input["WaitTimeSeconds"]; got != 20.0 {
			t.Errorf("once ready it polls for %v s, want 20", got)
		}
	})
}

func TestInstanceOf(t *testing.T) {
	for providerID, want := range map[string]string{
		"aws:///eu-west-1a/i-0123": "i-0123",
		"kind://podman/kind/node":  "",
		"":                         "",
		"aws:///":                  "",
	} {
		if got := instanceOf(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}}); got != want {
			t.Errorf("instanceOf(%q) = %q, want %q", providerID, got, want)
		}
	}
}
