package run

import (
	"context"
	"path/filepath"
	"time"
)

// Aftermath is what becomes of the cluster when a drill's recording is over.
type Aftermath int

// The aftermaths. State is saved in the folder stateFolder of the drill's own.
const (
	PutBack        Aftermath = iota // as it was before
	SaveAndPutBack                  // its state is saved first
	SaveAndLeave                    // its state is saved, and it stays as it is
)

// stateFolder is where a drill's aftermath saves the state of the cluster.
const stateFolder = "state"

// ended asks what is to become of the cluster. What cannot be read of the
// recording is for the final judgement to tell.
func (r *drilling) ended() Aftermath {
	if r.Ended == nil {
		return PutBack
	}
	r.rec.Flush()
	return r.Ended()
}

// saveTimeout bounds the saving of the handler's log and of the cluster's state, each:
// some of it is asked of kubelets that are gone.
const saveTimeout = 20 * time.Second

// saveState keeps what a reader of a failure looks at first. What is missing of
// it changes no verdict, so it is only told.
func (r *drilling) saveState(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := r.Cluster.SaveState(ctx, filepath.Join(r.Dir, stateFolder), r.rec.Clock().Start(), Namespace); err != nil {
		r.opts.Log("    the cluster's state is saved in part only: %s", oneLine(err))
	}
}
