package run

import (
	"context"
	"errors"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// phase tells all of the drills' phase.
func phase(all []*drilling, name string) {
	for _, r := range all {
		r.phase(name)
	}
}

func (r *drilling) phase(name string) { r.tell(history.Event{Kind: history.RunPhase, Key: name}) }

func recordAll(all []*drilling, e history.Event) {
	for _, r := range all {
		r.rec.Record(e)
	}
}

func closeAll(all []*drilling, complete bool) error {
	var errs []error
	for _, r := range all {
		errs = append(errs, r.rec.Close(complete))
	}
	return errors.Join(errs...)
}

func names(all []*drilling) string {
	var out []string
	for _, r := range all {
		out = append(out, r.Scenario.Name)
	}
	return strings.Join(out, " beside ")
}

// recordThem starts the recording of all. What it returns ends it: none before the
// others are at their end.
func recordThem(ctx context.Context, all []*drilling) (stop func(context.Context) error, err error) {
	var stops []func(context.Context) error
	stop = func(ctx context.Context) error {
		var errs []error
		for _, stop := range stops {
			errs = append(errs, stop(ctx))
		}
		return errors.Join(errs...)
	}
	for _, r := range all {
		one, err := r.record(ctx)
		if err != nil {
			return nil, errors.Join(err, stop(context.WithoutCancel(ctx)))
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// recordBeside takes into the history that something is another drill's.
func (r *drilling) recordBeside(o *drilling, what history.Event) {
	what.Kind, what.Key = history.RunBeside, o.Scenario.Name
	r.rec.Record(what)
}

// mine tells the drills beside this one that something is this one's.
func (r *drilling) mine(what history.Event) {
	for _, o := range r.beside {
		o.recordBeside(r, what)
	}
}
