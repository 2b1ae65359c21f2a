package system

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Second is a second handler in the cluster, beside the one under test. Its namespace and its
// credentials are its own.
type Second struct {
	Handler handler.Description
	// OwnQueue reports whether it has a queue of its own, which rules of its own feed, as two
	// charts would set them up. Otherwise both handlers read the same queue.
	OwnQueue bool
}

// InstallSecond installs a second handler, with its settings for a feature. The next Restore
// removes it, and its queue.
func (s *System) InstallSecond(ctx context.Context, second Second, feature string) error {
	second.Handler = second.Handler.For(feature)
	s.second = &second
	if second.OwnQueue {
		s.SecondQueue = s.AWS.Another()
		if err := s.SecondQueue.DeployStack(ctx, s.secondQueue()); err != nil {
			return fmt.Errorf("the second handler's queue: %w", err)
		}
		if err := s.SecondQueue.Purge(ctx); err != nil {
			return fmt.Errorf("the second handler's queue: %w", err)
		}
	}
	if second.Handler.ReadsMetadata() {
		if err := s.startMetadata(ctx); err != nil {
			return err
		}
	}
	settings, err := s.secondSettings(ctx)
	if err != nil {
		return err
	}
	if err := s.tag(ctx, second.Handler, settings); err != nil {
		return err
	}
	if err := s.withLabels(ctx, second.Handler, settings, second.Handler.Install); err != nil {
		return fmt.Errorf("the second handler: %w", err)
	}
	return nil
}

// ServesMetadata reports whether a handler in the cluster reads the metadata of its instance.
func (s *System) ServesMetadata() bool {
	return s.installed != nil && s.installed.ReadsMetadata() || s.second != nil && s.second.Handler.ReadsMetadata()
}

// secondSettings are what the second handler gets to know.
func (s *System) secondSettings(ctx context.Context) (handler.Settings, error) {
	settings, err := s.Equipment(ctx, s.second.Handler)
	settings = asSecond(settings)
	if s.second.OwnQueue {
		settings.QueueName, settings.QueueURL = s.secondQueue(), s.SecondQueue.QueueURL(s.Settings.Endpoint)
	}
	return settings, err
}

// SettingsOfSecond are what is needed to find the second handler in the cluster.
func (s *System) SettingsOfSecond() handler.Settings {
	return asSecond(s.Settings)
}

// asSecond are the settings with the namespace and the credentials of a second handler.
func asSecond(settings handler.Settings) handler.Settings {
	settings.Namespace, settings.AccessKey = handler.SecondNamespace, history.SecondHandler
	return settings
}

// secondQueue names the queue of a second handler.
func (s *System) secondQueue() string { return s.opts.Cluster + "-second" }

// removeSecond removes the second handler, if there is one. What it left on nodes is for Restore.
func (s *System) removeSecond(ctx context.Context) error {
	if s.second == nil {
		return nil
	}
	settings, err := s.secondSettings(ctx)
	if err != nil {
		return err
	}
	if err := s.second.Handler.Uninstall(ctx, s.Cluster.Config, settings); err != nil {
		return fmt.Errorf("remove the second handler: %w", err)
	}
	var errs []error
	if s.second.Handler.ReadsMetadata() && (s.installed == nil || !s.installed.ReadsMetadata()) {
		errs = append(errs, s.stopMetadata(ctx))
	}
	if s.second.OwnQueue {
		errs = append(errs, s.SecondQueue.DeleteStack(ctx, s.secondQueue()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what the second handler had: %w", err)
	}
	s.second, s.SecondQueue = nil, nil
	return nil
}
