package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/addon"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/vpccni"
	"github.com/spotdrill/spotdrill/scenarios"
)

// addOns are the add-ons of Amazon EKS: coredns, and the stand-in for vpc-cni.
type addOns struct {
	*drill
	objects objects.Client
	dns     *clusterdns.CoreDNS
}

// do upgrades an add-on, or sets its values by hand.
func (a addOns) do(ctx context.Context, d scenarios.Do) error {
	if d.Verb == scenarios.Configure {
		return a.setValues(ctx, d)
	}
	return a.upgrade(ctx, d)
}

// upgrade upgrades an add-on, and records how that went: conflicts are for the checks to judge.
func (a addOns) upgrade(ctx context.Context, u scenarios.Do) error {
	a.announce(history.NewAddOnUpgrading(u.AddOn, u.Conflicts))
	begun := a.now()
	var err error
	if u.AddOn == scenarios.VPCCNIAddOn {
		err = a.upgradeVPCCNI(ctx, u.Conflicts)
	} else {
		var lameduck time.Duration // the add-on's own
		if u.Lameduck != nil {
			lameduck = u.Lameduck.D()
		}
		err = a.dns.Upgrade(ctx, u.Conflicts, lameduck)
	}
	if errors.Is(err, addon.ErrConflict) { // nothing was changed
		a.Record(history.NewAddOnRefused(u.AddOn, u.Conflicts, history.Note(err.Error())))
		return nil
	}
	if err != nil {
		return err
	}
	a.Record(history.NewAddOnUpgraded(u.AddOn, u.Conflicts, history.With(history.Numbers{history.Took: (a.now() - begun).Seconds()})))
	return nil
}

// setValues sets the values of an add-on by hand.
func (a addOns) setValues(ctx context.Context, s scenarios.Do) error {
	begun := a.now()
	if err := a.setByHand(ctx); err != nil {
		return err
	}
	a.Record(history.NewAddOnSet(s.AddOn, history.With(history.Numbers{history.Took: (a.now() - begun).Seconds()})))
	return nil
}

// install installs the former version of the stand-in of the add-on vpc-cni, and sets its
// values by hand.
func (a addOns) install(ctx context.Context) error {
	manifest, err := vpccni.Manifest(vpccni.Former, a.namespace, a.image)
	if err != nil {
		return err
	}
	if err := a.apply(ctx, manifest, history.OverwriteConflicts); err != nil {
		return fmt.Errorf("install the add-on vpc-cni: %w", err)
	}
	return a.setByHand(ctx)
}

func (a addOns) upgradeVPCCNI(ctx context.Context, mode history.ConflictMode) error {
	manifest, err := vpccni.Manifest(vpccni.Next, a.namespace, a.image)
	if err != nil {
		return err
	}
	if err := a.apply(ctx, manifest, mode); err != nil {
		return fmt.Errorf("upgrade the add-on vpc-cni: %w", err)
	}
	return a.objects.DaemonSetReady(ctx, a.namespace, vpccni.DaemonSet)
}

// apply applies the manifest of an add-on's version, as the stand-in for EKS's manager of
// add-ons.
func (a addOns) apply(ctx context.Context, manifest string, mode history.ConflictMode) error {
	parts, err := addon.Objects(strings.NewReader(manifest))
	if err != nil {
		return err
	}
	return addon.Upgrade(ctx, a.objects.API, parts, addon.Manager, mode)
}

// setByHand changes the DaemonSet by hand, as kubectl set env does.
func (a addOns) setByHand(ctx context.Context) error {
	options := metav1.PatchOptions{FieldManager: "kubectl-set"}
	_, err := a.objects.Clientset.AppsV1().DaemonSets(a.namespace).Patch(ctx, vpccni.DaemonSet, types.StrategicMergePatchType, vpccni.Patch(), options)
	if err != nil {
		return fmt.Errorf("set the values of the add-on vpc-cni: %w", err)
	}
	return a.objects.DaemonSetReady(ctx, a.namespace, vpccni.DaemonSet)
}
