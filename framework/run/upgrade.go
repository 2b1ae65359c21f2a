package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/addon"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/vpccni"
	"github.com/spotdrill/spotdrill/scenarios"
)

// upgrade upgrades an add-on, and records how that went: conflicts are for the checks to judge.
func (r *runner) upgrade(ctx context.Context, u scenarios.Do) error {
	r.announce(history.NewAddOnUpgrading(u.AddOn, u.Conflicts))
	begun := r.rec.Clock().Now()
	var err error
	if u.AddOn == scenarios.VPCCNIAddOn {
		err = r.upgradeVPCCNI(ctx, u.Conflicts)
	} else {
		var lameduck time.Duration // the add-on's own
		if u.Lameduck != nil {
			lameduck = u.Lameduck.D()
		}
		err = r.sys.DNS.Upgrade(ctx, u.Conflicts, lameduck)
	}
	if errors.Is(err, addon.ErrConflict) { // nothing was changed
		r.rec.Record(history.NewAddOnRefused(u.AddOn, u.Conflicts, history.Note(err.Error())))
		return nil
	}
	if err != nil {
		return err
	}
	r.rec.Record(history.NewAddOnUpgraded(u.AddOn, u.Conflicts, history.With(history.Numbers{history.Took: (r.rec.Clock().Now() - begun).Seconds()})))
	return nil
}

// setValues sets the values of an add-on by hand.
func (r *runner) setValues(ctx context.Context, s scenarios.Do) error {
	begun := r.rec.Clock().Now()
	if err := r.setVPCCNI(ctx); err != nil {
		return err
	}
	r.rec.Record(history.NewAddOnSet(s.AddOn, history.With(history.Numbers{history.Took: (r.rec.Clock().Now() - begun).Seconds()})))
	return nil
}

// installVPCCNI installs the former version of the stand-in of the add-on vpc-cni, and sets its
// values by hand.
func (r *runner) installVPCCNI(ctx context.Context) error {
	manifest, err := vpccni.Manifest(vpccni.Former, r.namespace, r.sys.Image)
	if err != nil {
		return err
	}
	if err := r.applyAddOn(ctx, manifest, history.OverwriteConflicts); err != nil {
		return fmt.Errorf("install the add-on vpc-cni: %w", err)
	}
	return r.setVPCCNI(ctx)
}

func (r *runner) upgradeVPCCNI(ctx context.Context, mode history.ConflictMode) error {
	manifest, err := vpccni.Manifest(vpccni.Next, r.namespace, r.sys.Image)
	if err != nil {
		return err
	}
	if err := r.applyAddOn(ctx, manifest, mode); err != nil {
		return fmt.Errorf("upgrade the add-on vpc-cni: %w", err)
	}
	return r.sys.Cluster.Objects().DaemonSetReady(ctx, r.namespace, vpccni.DaemonSet)
}

// applyAddOn applies the manifest of an add-on's version, as the stand-in for EKS's manager of
// add-ons.
func (r *runner) applyAddOn(ctx context.Context, manifest string, mode history.ConflictMode) error {
	objects, err := addon.Objects(strings.NewReader(manifest))
	if err != nil {
		return err
	}
	return addon.Upgrade(ctx, r.sys.Cluster.API, objects, addon.Manager, mode)
}

// setVPCCNI changes the DaemonSet by hand, as kubectl set env does.
func (r *runner) setVPCCNI(ctx context.Context) error {
	options := metav1.PatchOptions{FieldManager: "kubectl-set"}
	_, err := r.sys.Cluster.Clientset.AppsV1().DaemonSets(r.namespace).Patch(ctx, vpccni.DaemonSet, types.StrategicMergePatchType, vpccni.Patch(), options)
	if err != nil {
		return fmt.Errorf("set the values of the add-on vpc-cni: %w", err)
	}
	return r.sys.Cluster.Objects().DaemonSetReady(ctx, r.namespace, vpccni.DaemonSet)
}

// removeVPCCNI removes from the nodes what the stand-in of the add-on vpc-cni has left there.
func (p *Play) removeVPCCNI(ctx context.Context) error {
	if slices.ContainsFunc(p.Drills, func(r *runner) bool { return r.Scenario.Workload.SecurityGroups }) {
		return p.sys.Cluster.RemoveVPCCNI(ctx)
	}
	return nil
}
