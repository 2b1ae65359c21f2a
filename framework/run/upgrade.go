package run

import (
	"context"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// upgrade upgrades an add-on, and records how that went: conflicts are for the checks to judge.
func (r *runner) upgrade(ctx context.Context, u scenarios.Upgrade) error {
	e := history.Event{Kind: history.AddOnUpgrading, Key: u.AddOn, Action: string(u.Conflicts)}
	r.announce(e)
	begun := r.rec.Clock().Now()
	err := r.sys.Cluster.UpgradeDNS(ctx, u.Conflicts, u.Lameduck.D())
	if conflicts, refused := cluster.Refused(err); refused {
		e.Kind, e.Note = history.AddOnRefused, conflicts
		r.rec.Record(e)
		return nil
	}
	if err != nil {
		return err
	}
	e.Kind, e.Numbers = history.AddOnUpgraded, history.Numbers{history.Took: (r.rec.Clock().Now() - begun).Seconds()}
	r.rec.Record(e)
	return nil
}
