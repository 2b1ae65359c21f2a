package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/spotdrill/spotdrill/framework/history"
)

// sight is what is on record of one kind of objects. It is the store of a client-go
// Reflector, which lists, watches, and takes a watch that ends up where it was. Every
// change is on record when the store has it.
type sight struct {
	what    string
	source  cache.ListWatch
	handler cache.ResourceEventHandler
	clock   *history.Clock
	newest  func() string // the resourceVersion that the watch has come to
	listed  chan struct{} // closed after the first list

	mu      sync.Mutex
	objects map[types.UID]metav1.Object // as on record; nil before the first list
	broken  error
}

// newSight is a sight of the objects that a client of the API gives.
func newSight[L runtime.Object](what string, client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, selector string, handler cache.ResourceEventHandler,
) *sight {
	return &sight{what: what, handler: handler, listed: make(chan struct{}), source: cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return client.Watch(ctx, o)
		},
	}}
}

// Add and Update record that an object was made or changed.
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
	delete(s.objects, gone.GetUID())
	s.handler.OnDelete(obj)
	return nil
}

// Replace records the list that a watch begins with. Where it is not the first one,
// the watch could not be taken up where it was, and nobody knows what was in between.
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
	} else if s.broken == nil {
		s.broken = fmt.Errorf("the watch of %s broke off, and began anew at %s: what was in between may be missing from the record",
			s.what, history.Seconds(s.clock.Now()))
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

// Resync is asked for by nobody.
func (s *sight) Resync() error { return nil }

// complete waits until the record has come to what a list says now. It is an error
// where the watch had broken off.
func (s *sight) complete(ctx context.Context) error {
	list, err := s.source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("ask whether all %s are on record: %w", s.what, err)
	}
	err = Until(ctx, completeTimeout, "all changes of "+s.what+" to be on record", func(context.Context) string { return s.whyBehind(list) })
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.broken, err)
}

// whyBehind says what of a list is not on record yet, or "". A watch tells of changes
// in their order: where it has come to what is newer than the list, it has told all.
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
		return fmt.Sprintf("%d are on record, %d are there", len(s.objects), there)
	}
	return why
}
