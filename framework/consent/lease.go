package consent

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// The Lease that the process has which changes a cluster. Its namespace is the same for every user, so
// that two drills never run at once.
const (
	leaseNamespace = metav1.NamespaceSystem
	leaseName      = "spotdrill-live"
	// leaseTime is how long a Lease must not have been renewed before it is free.
	leaseTime  = 20 * time.Second
	leaseRenew = 4 * time.Second
	leaseLost  = leaseTime - leaseRenew/2
)

// ErrHeld reports that another process changes the cluster now.
var ErrHeld = errors.New("another process drills this cluster, or puts it back, now")

// Hold takes the Lease by which only one process changes the cluster at a time. While another one
// renews it, the error is ErrHeld. One that is not renewed is taken over: Hold first watches it for 20 s,
// so that clocks do not matter. The context that it returns ends if the Lease is lost. Its release must
// be called.
func Hold(ctx context.Context, client kubernetes.Interface, holder string) (held context.Context, release func() error, err error) {
	mine, err := take(ctx, client, holder)
	if err != nil {
		return nil, nil, fmt.Errorf("take the Lease %s/%s: %w", leaseNamespace, leaseName, err)
	}
	held, lost := context.WithCancelCause(ctx)
	// Whatever a request waits for, the process stops before another one can take the Lease over.
	expiry := time.AfterFunc(leaseLost, func() {
		lost(fmt.Errorf("the Lease %s/%s was not renewed for %s: the API server does not answer", leaseNamespace, leaseName, leaseLost))
	})
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		lost(renew(held, client, mine, expiry))
	}()
	return held, func() error {
		lost(nil)
		<-renewed
		expiry.Stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
		defer cancel()
		return wrap.Errorf(free(ctx, client, mine), "free the Lease %s/%s", leaseNamespace, leaseName)
	}, nil
}

// free deletes the Lease, unless another process has it by now.
func free(ctx context.Context, client kubernetes.Interface, mine *coordinationv1.Lease) error {
	leases := client.CoordinationV1().Leases(leaseNamespace)
	there, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
	if err == nil && isOf(there, mine) {
		err = leases.Delete(ctx, leaseName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion}})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// isOf reports whether the Lease is still that of this process. One that was taken over has its old UID.
func isOf(there, mine *coordinationv1.Lease) bool {
	return there.UID == mine.UID && ptr.Deref(there.Spec.HolderIdentity, "") == *mine.Spec.HolderIdentity
}

// take creates the Lease, or takes over one that nobody renews.
func take(ctx context.Context, client kubernetes.Interface, holder string) (*coordinationv1.Lease, error) {
	leases := client.CoordinationV1().Leases(leaseNamespace)
	now := metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(leaseTime / time.Second)), AcquireTime: &now, RenewTime: &now}
	var seen *coordinationv1.Lease
	for began := time.Now(); ; {
		made, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}, Spec: spec}, metav1.CreateOptions{FieldManager: fieldManager})
		if !apierrors.IsAlreadyExists(err) {
			return made, err
		}
		there, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, err
		case seen == nil:
			seen = there
		case there.UID != seen.UID || there.ResourceVersion != seen.ResourceVersion || !there.Spec.RenewTime.Equal(seen.Spec.RenewTime):
			return nil, fmt.Errorf("%w: %s", ErrHeld, ptr.Deref(there.Spec.HolderIdentity, "unknown"))
		case time.Since(began) >= leaseTime:
			there.Spec = spec
			taken, err := leases.Update(ctx, there, metav1.UpdateOptions{FieldManager: fieldManager})
			if apierrors.IsConflict(err) {
				err = ErrHeld
			}
			return taken, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// renew renews the Lease until the context ends, and puts off its expiry. It returns why it is lost.
func renew(ctx context.Context, client kubernetes.Interface, mine *coordinationv1.Lease, expiry *time.Timer) error {
	leases, renewed := client.CoordinationV1().Leases(leaseNamespace), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(leaseRenew):
		}
		there, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !isOf(there, mine) {
			return fmt.Errorf("the Lease %s/%s was taken from this process", leaseNamespace, leaseName)
		}
		if err == nil {
			there.Spec.RenewTime = ptr.To(metav1.NowMicro())
			_, err = leases.Update(ctx, there, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		if err == nil {
			renewed = time.Now()
			expiry.Reset(leaseLost)
		} else if time.Since(renewed) >= leaseTime-leaseRenew {
			return fmt.Errorf("renew the Lease %s/%s: %w", leaseNamespace, leaseName, err)
		}
	}
}
