package run

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spotdrill/spotdrill/framework/system"
)

// Aftermath is what happens to the cluster when a drill's recording is over.
type Aftermath int

// The aftermaths. State is saved in the folder stateFolder of the drill's own.
const (
	PutBack        Aftermath = iota // it becomes what it was before the drill
	SaveAndPutBack                  // its state is saved first
	SaveAndLeave                    // its state is saved, and it stays as it is
)

// stateFolder is where the cluster's state after a drill is saved.
const stateFolder = "state"

// ended decides what happens to the cluster. A recording that cannot be read is left
// to the final judgement.
func (r *runner) ended() Aftermath {
	if r.Ended == nil {
		return PutBack
	}
	r.rec.Flush()
	return r.Ended()
}

// saveTimeout bounds the saving of the handler's log, and that of the cluster's state:
// some of it comes from kubelets that may be gone.
const saveTimeout = 20 * time.Second

// saveState saves what a reader of a failure looks at first. What is missing changes
// no verdict, so it is only logged.
func (r *runner) saveState(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := r.sys.Cluster.SaveState(ctx, filepath.Join(r.Dir, stateFolder), r.rec.Clock().Start(), system.Namespace); err != nil {
		r.sys.Log("    the cluster's state could not be saved completely: %s", oneLine(err))
	}
}
