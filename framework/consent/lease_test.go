package consent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
