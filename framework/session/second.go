package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// second is the handler that runs in a scenario's drill beside the one under test; nil if none
// does.
func (s *Session) second(scenario scenarios.Scenario) *handler.Description {
	switch {
	case scenario.SecondHandler == nil:
		return nil
	case s.Second != nil:
		return s.Second
	}
	return s.seconds[scenario.SecondHandler.Name]
}

// loadSeconds reads the descriptions of the second handlers that scenarios name.
func (s *Session) loadSeconds(all []scenarios.Scenario) error {
	s.seconds = map[string]*handler.Description{}
	for _, scenario := range all {
		if scenario.SecondHandler == nil {
			continue
		}
		d, err := handler.Load(scenario.SecondHandler.Name)
		if err != nil {
			return fmt.Errorf("scenario %s: secondHandler: %w", scenario.Name, err)
		}
		s.seconds[scenario.SecondHandler.Name] = &d
	}
	return nil
}

// provideSeconds loads the images of the second handlers of the scenarios that are played. The
// drills of one whose image cannot be had here are skipped.
func (s *Session) provideSeconds(ctx context.Context) error {
	s.without = map[string]string{}
	provided := map[string]bool{}
	for _, scenario := range s.Scenarios {
		second := s.second(scenario)
		if second == nil || s.NotApplicable(scenario) != "" || provided[second.Name] {
			continue
		}
		provided[second.Name] = true
		err := s.system.ProvideSecond(ctx, *second)
		if errors.Is(err, system.ErrNoImage) && second.Embedded() {
			s.without[second.Name] = err.Error()
			continue
		}
		if err != nil {
			return fmt.Errorf("the second handler's image: %w", err)
		}
	}
	return nil
}

// notWithSecond is why the scenario is not played because of the second handler, or "".
func (s *Session) notWithSecond(scenario scenarios.Scenario) string {
	second := s.second(scenario)
	if second == nil {
		if s.Second != nil {
			return "it is about one handler, and this run has two"
		}
		return ""
	}
	feature := scenario.SecondHandler.Feature
	switch {
	case s.Second == nil && scenario.Feature != "" && !s.Handler.Claims(scenario.Feature):
		return fmt.Sprintf("two handlers: it is played with --handler %s --handler %s", s.Handler.Name, second.Name)
	case len(s.Handler.Manifests) == 0 || len(second.Manifests) == 0:
		return "cannot be arranged: it requires two handlers"
	case s.Handler.ReadsMetadata():
		return fmt.Sprintf("cannot be arranged: %s reads the metadata of its instance, so that it must be the second of the two handlers", s.Handler.Name)
	case second.Name == s.Handler.Name:
		return fmt.Sprintf("cannot be arranged: both handlers would be %s", second.Name)
	case len(second.Workers.Manifests) > 0:
		return fmt.Sprintf("cannot be arranged: %s has objects of its own for the workers, so that it must be the first of the two handlers", second.Name)
	case feature != "" && !second.Claims(feature):
		return fmt.Sprintf("not supported: the description of %s, the second handler, does not claim %s", second.Name, feature)
	}
	return s.without[second.Name]
}
