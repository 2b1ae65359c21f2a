package system

import (
	"context"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// settingDNS is a change of CoreDNS's settings in the background.
type settingDNS struct {
	stop context.CancelFunc
	done chan struct{} // closed when it is over
}

// PrepareDNS begins to give CoreDNS the settings of the next drill and returns at once. Its
// pods take seconds to become Ready, during which the nodes are restored and the previous
// drill is judged. SetDNS then waits for it, and repeats what failed.
func (s *System) PrepareDNS(ctx context.Context, want coredns.Settings) {
	s.abandonDNS()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	setting := &settingDNS{stop: stop, done: make(chan struct{})}
	s.dns = setting
	go func() {
		defer close(setting.done)
		_ = s.DNS.Set(ctx, want)
	}()
}

// SetDNS gives CoreDNS the settings, see clusterdns.
func (s *System) SetDNS(ctx context.Context, want coredns.Settings) error {
	if s.dns != nil {
		select {
		case <-s.dns.done:
		case <-ctx.Done():
		}
		s.abandonDNS()
	}
	return s.DNS.Set(ctx, want)
}

// abandonDNS ends the change in the background.
func (s *System) abandonDNS() {
	if s.dns == nil {
		return
	}
	s.dns.stop()
	<-s.dns.done
	s.dns = nil
}
