package run

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/recording"
)

// StopTimeout bounds the end of the recording, also after a Ctrl-C.
const StopTimeout = recording.StopTimeout

// inParallel does the same to all items at once. The first error cancels the others.
func inParallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}
