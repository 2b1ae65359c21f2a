package consent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

func TestOnlyOneProcessChangesACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorld().start()
		held, release, err := Hold(t.Context(), a, "first")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, _, err := Hold(t.Context(), a, "second"); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "first") || time.Since(began) > leaseTime {
			t.Errorf("the second one after %s: %v", time.Since(began), err)
		}
		if held.Err() != nil {
			t.Error("the first one lost it")
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		began = time.Now()
		_, release, err = Hold(t.Context(), a, "second")
		if err != nil || time.Since(began) > 0 {
			t.Fatalf("a free one after %s: %v", time.Since(began), err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

// A process that was killed does not renew it.
func TestALeaseThatNobodyRenewsIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorld().start()
		if _, err := take(t.Context(), a, "killed"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		held, release, err := Hold(t.Context(), a, "second")
		if err != nil || time.Since(began) < leaseTime {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		if held.Err() != nil {
			t.Errorf("lost: %v", context.Cause(held))
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

func TestALeaseThatIsLostEndsTheDrill(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*apiServer)
		want string
	}{
		"somebody deletes it": {func(a *apiServer) {
			_ = a.Tracker().Delete(leaseResource, leaseNamespace, leaseName)
		}, "was taken from this process"},
		"the API server does not answer": {func(a *apiServer) {
			a.away.Store(true)
		}, "renew the Lease kube-system/spotdrill-live: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newWorld().start()
				held, release, err := Hold(t.Context(), a, "first")
				if err != nil {
					t.Fatal(err)
				}
				c.lose(a)
				began := time.Now()
				<-held.Done()
				if cause := context.Cause(held); !strings.Contains(cause.Error(), c.want) || time.Since(began) > leaseTime {
					t.Errorf("after %s: %v", time.Since(began), cause)
				}
				_ = release()
			})
		})
	}
}

// A request that gets no answer must not keep a process at work while another one takes the Lease over.
func TestALeaseWhoseRenewalHangsIsLostBeforeAnotherCanHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorld().start()
		slow := silent{a, make(chan struct{})}
		held, release, err := Hold(t.Context(), slow, "first")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(leaseRenew + time.Second)
		_, releaseSecond, err := Hold(t.Context(), a, "second")
		if err != nil {
			t.Fatal(err)
		}
		if held.Err() == nil {
			t.Error("two processes have it")
		} else if cause := context.Cause(held); !strings.Contains(cause.Error(), "the API server does not answer") {
			t.Error(cause)
		}
		close(slow.until)
		// What the first one does last must not free the second one's.
		if err := release(); err != nil {
			t.Error(err)
		}
		if _, _, err := Hold(t.Context(), a, "third"); !errors.Is(err, ErrHeld) {
			t.Errorf("the third one: %v", err)
		}
		if err := releaseSecond(); err != nil {
			t.Error(err)
		}
	})
}

// silent is an API server that accepts requests to read a Lease, and does not answer until a time.
type silent struct {
	kubernetes.Interface
	until chan struct{}
}

type silentLeases struct {
	coordinationclient.CoordinationV1Interface
	coordinationclient.LeaseInterface
	until chan struct{}
}

func (s silent) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return silentLeases{CoordinationV1Interface: s.Interface.CoordinationV1(), until: s.until}
}

func (s silentLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return silentLeases{LeaseInterface: s.CoordinationV1Interface.Leases(namespace), until: s.until}
}

func (s silentLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.until:
		return s.LeaseInterface.Get(ctx, name, o)
	}
}

func (silentLeases) RESTClient() rest.Interface { return nil }
