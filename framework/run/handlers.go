package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Install makes d the one handler in the cluster. One that is there already is
// kept, so that scenarios share it.
func (s *System) Install(ctx context.Context, d handler.Description) error {
	if s.installed != nil && s.installed.Name == d.Name && s.installed.File == d.File {
		return nil
	}
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	// Recorded first: what is half installed is to be removed as well.
	s.installed = &d
	return d.Install(ctx, s.Cluster.Config, s.settings, func(string, ...any) {})
}

// Meta is what histories say of the handler: what its description says, with the
// version of its image where it is part of this product, and where it runs.
func (s *System) Meta(d handler.Description) history.Handler {
	meta := d.Meta()
	if meta.Version == "" || meta.Version == "(devel)" {
		_, meta.Version, _ = strings.Cut(s.image, ":")
	}
	meta.Deployment = d.Deployment(s.settings)
	return meta
}

// Uninstall removes the handler that Install made, or one that an earlier run
// left.
func (s *System) Uninstall(ctx context.Context) error {
	if s.installed == nil {
		return handler.RemoveLeftover(ctx, s.Cluster.Config)
	}
	if err := s.installed.Uninstall(ctx, s.Cluster.Config, s.settings); err != nil {
		return err
	}
	s.installed = nil
	return nil
}

// Finish puts the cluster back as it was made: no handler, CoreDNS as it came.
func (s *System) Finish(ctx context.Context) error {
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	if err := s.Restore(ctx); err != nil {
		return err
	}
	return s.Cluster.RestoreDNS(ctx)
}

// saveHandlerLog keeps what the handler said during the drill beside the
// history.
func (r *drilling) saveHandlerLog(ctx context.Context) error {
	if r.installed == nil {
		return nil
	}
	text, err := r.installed.Logs(ctx, r.Cluster.Config, r.settings, r.rec.Clock().Start())
	if err != nil {
		text = fmt.Sprintf("the handler's log could not be read: %v\n", err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "handler.log"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("save the handler's log: %w", err)
	}
	return nil
}
