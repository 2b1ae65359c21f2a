package system

import (
	"context"
	"testing"
	"time"
)

// A change of CoreDNS in the background ends before the cluster is put back: nothing
// changes CoreDNS afterwards.
func TestAnAbandonedChangeOfDNSIsOver(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	over := false
	setting := &settingDNS{stop: stop, done: make(chan struct{})}
	s := &System{dns: setting}
	go func() {
		defer close(setting.done)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		over = true
	}()
	s.abandonDNS()
	if !over || s.dns != nil {
		t.Errorf("over %t, in progress %v", over, s.dns)
	}
	s.abandonDNS() // there is none any more
}
