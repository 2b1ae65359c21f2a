package recording

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wait"
)

// sight records the changes of one kind of object. It is the store of a client-go
// Reflector, which lists, watches, and resumes a watch that ends. A change is recorded
// when it enters the store.
type sight struct {
	what    string
	source  cache.ListWatch
	handler cache.ResourceEventHandler
	rec     *history.Recorder
	newest  func() string // the resourceVersion that the watch has reached
	listed  chan struct{} // closed after the first list
	// lasting reports that objects of this kind stay for longer than a drill, so that a list has
	// all that were created meanwhile.
	lasting bool
	// gaps reports that what a watch missed which could not be resumed may be missing.
	gaps bool

	mu      sync.Mutex
	objects map[types.UID]metav1.Object // as recorded; nil before the first list
	heard   time.Duration               // when the watch last delivered something
	begun   bool                        // a watch was opened
	lost    bool                        // it ended, and no other is open yet
	missed  string                      // what the record lacks when the watch is back; or ""
	broken  error
}

// newSight returns a sight of the objects that a client lists and watches.
func newSight[L runtime.Object](what string, client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, selector string, handler cache.ResourceEventHandler,
) *sight {
	s := &sight{what: what, handler: handler, listed: make(chan struct{})}
	s.source = cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			s.ended(ctx)
			w, err := client.Watch(ctx, o)
			if err == nil {
				s.opened()
			}
			return w, err
		},
	}
	return s
}

// ended records that the watch was lost, unless it is the first one that is about to be
// opened or the recording ends. A Reflector opens another at once when one ends.
func (s *sight) ended(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && ctx.Err() == nil {
		s.lose()
	}
}

func (s *sight) lose() {
	if s.lost {
		return
	}
	s.lost = true
	s.rec.Record(history.NewWatchLost(s.what, history.Said(s.heard)))
}

// opened records that a watch that was lost is back.
func (s *sight) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	s.back()
}

func (s *sight) back() {
	if !s.lost {
		return
	}
	s.lost = false
	s.rec.Record(history.NewWatchBack(s.what, history.Note(s.missed)))
	s.missed = ""
}

// Add and Update record that an object was created or changed.
func (s *sight) Add(obj any) error    { return s.put(obj) }
func (s *sight) Update(obj any) error { return s.put(obj) }

func (s *sight) put(obj any) error {
	now, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(now, false)
	return nil
}

func (s *sight) record(now metav1.Object, initial bool) {
	s.heard = s.rec.Clock().Now()
	if before, known := s.objects[now.GetUID()]; known {
		s.handler.OnUpdate(before, now)
	} else {
		s.handler.OnAdd(now, initial)
	}
	s.objects[now.GetUID()] = now
}

// Delete records that an object is gone.
func (s *sight) Delete(obj any) error {
	gone, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = s.rec.Clock().Now()
	delete(s.objects, gone.GetUID())
	s.handler.OnDelete(obj)
	return nil
}

// Replace records the list that a watch starts with. If it is not the first list, the watch
// could not be resumed, and it is unknown what happened in between, unless the objects are
// lasting, and all that were recorded are in the list, or gaps are allowed.
func (s *sight) Replace(list []any, _ string) error {
	there := make([]metav1.Object, len(list))
	uids := map[types.UID]bool{}
	for i, obj := range list {
		o, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		there[i], uids[o.GetUID()] = o, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.objects == nil
	if first {
		s.objects = map[types.UID]metav1.Object{}
		defer close(s.listed)
	} else {
		if !s.lost { // a watch was open, but had nothing to go on from
			defer s.back()
		}
		s.lose()
		if s.gaps {
			s.missed = "listed again: what came and went meanwhile is not on record"
		}
	}
	if !first && !s.gaps && (!s.lasting || s.lacks(uids)) {
		s.broken = cmp.Or(s.broken, fmt.Errorf("the watch of %s was interrupted and started again at %s: events in between may be missing from the record",
			s.what, history.Seconds(s.rec.Clock().Now())))
	}
	for uid, gone := range s.objects {
		if !uids[uid] {
			delete(s.objects, uid)
			s.handler.OnDelete(gone)
		}
	}
	for _, o := range there {
		s.record(o, first)
	}
	return nil
}

// lacks reports whether an object that was recorded is not among these.
func (s *sight) lacks(uids map[types.UID]bool) bool {
	for uid := range s.objects {
		if !uids[uid] {
			return true
		}
	}
	return false
}

// Resync is never called: the Reflector has no resync period.
func (s *sight) Resync() error { return nil }

// complete waits until everything up to now is recorded. It is an error if the watch was
// interrupted.
func (s *sight) complete(ctx context.Context) error {
	list, err := s.source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("check whether all %s are recorded: %w", s.what, err)
	}
	err = wait.Until(ctx, completeTimeout, "all changes of "+s.what+" to be recorded", func(context.Context) string { return s.whyBehind(list) })
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.broken, err)
}

// whyBehind returns what in a list is not recorded yet, or "". A watch delivers changes in
// order: once it has reached the list's resourceVersion, everything is recorded.
func (s *sight) whyBehind(list runtime.Object) string {
	at, err := meta.ListAccessor(list)
	if err != nil {
		return err.Error()
	}
	if order, err := resourceversion.CompareResourceVersion(s.newest(), at.GetResourceVersion()); err == nil && order >= 0 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there, why := 0, ""
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		there++
		if was := s.objects[o.GetUID()]; was == nil || was.GetResourceVersion() != o.GetResourceVersion() {
			why = fmt.Sprintf("%s has changed", o.GetName())
		}
		return nil
	})
	switch {
	case err != nil:
		return err.Error()
	case why == "" && there != len(s.objects):
		return fmt.Sprintf("%d are recorded, %d exist", len(s.objects), there)
	}
	return why
}
