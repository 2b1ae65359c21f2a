package run

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
)

// stateFolder is where the cluster's state after a drill is saved, in the drill's folder.
const stateFolder = "state"

// saveTimeout bounds the saving of the handler's log, and that of the cluster's state:
// some of it comes from kubelets that may be gone.
const saveTimeout = 20 * time.Second

// saveState saves what a reader of a failure looks at first. What is missing changes
// no verdict, so it is only logged.
func (r *runner) saveState(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	down, err := r.sys.Cluster.Down(ctx)
	err = errors.Join(err, recording.SaveState(ctx, r.sys.Cluster.Clientset, down, filepath.Join(r.Dir, stateFolder), r.rec.Clock().Start(), system.Namespace))
	if err != nil {
		r.sys.Log("    the cluster's state could not be saved completely: %s", oneLine(err))
	}
}
