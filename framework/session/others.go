package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// underTest is the installation of a handler that is checked.
func underTest(d handler.Description) system.Installation {
	return system.Installation{Name: history.UnderTest, Handler: d}
}

// installations are the handlers of a scenario's drill: the one under test, or none if nothing is to
// drain the nodes, and then those next to it.
func (s *Session) installations(scenario scenarios.Scenario, under handler.Description) []system.Installation {
	if scenario.Handler == scenarios.HandlerNone {
		under = handler.None()
	}
	all := []system.Installation{underTest(under.For(scenario.Feature, scenario.Setting))}
	if other := s.other(scenario); other != nil {
		all = append(all, nextTo(other.For(scenario.OtherHandler.Feature, ""), scenario.OtherHandler.Queue == scenarios.OwnQueue))
	}
	return all
}

// nextTo is the installation of a handler next to the one under test.
func nextTo(d handler.Description, ownQueue bool) system.Installation {
	return system.Installation{Name: history.OtherHandler, Handler: d, OwnQueue: ownQueue}
}

// other is the handler that runs in a scenario's drill next to the one under test; nil if none
// does.
func (s *Session) other(scenario scenarios.Scenario) *handler.Description {
	switch {
	case scenario.OtherHandler == nil:
		return nil
	case s.Other != nil:
		return s.Other
	}
	return s.others[scenario.OtherHandler.Name]
}

// loadOthers reads the descriptions of the second handlers that scenarios name.
func (s *Session) loadOthers(all []scenarios.Scenario) error {
	s.others = map[string]*handler.Description{}
	for _, scenario := range all {
		if scenario.OtherHandler == nil {
			continue
		}
		d, err := handler.Load(scenario.OtherHandler.Name)
		if err != nil {
			return fmt.Errorf("scenario %s: secondHandler: %w", scenario.Name, err)
		}
		s.others[scenario.OtherHandler.Name] = &d
	}
	return nil
}

// provideOthers loads the images of the second handlers of the scenarios that are played. The
// drills of one whose image cannot be had here are skipped.
func (s *Session) provideOthers(ctx context.Context) error {
	s.without = map[string]string{}
	provided := map[string]bool{}
	for _, scenario := range s.Scenarios {
		other := s.other(scenario)
		if other == nil || s.NotApplicable(scenario) != "" || provided[other.Name] {
			continue
		}
		provided[other.Name] = true
		err := s.system.Provide(ctx, nextTo(*other, false), "")
		if errors.Is(err, system.ErrNoImage) && other.Embedded() {
			s.without[other.Name] = err.Error()
			continue
		}
		if err != nil {
			return fmt.Errorf("the second handler's image: %w", err)
		}
	}
	return nil
}

// notWithOther is why the scenario is not played because of the second handler, or "".
func (s *Session) notWithOther(scenario scenarios.Scenario) string {
	other := s.other(scenario)
	if other == nil {
		if s.Other != nil {
			return "it is about one handler, and this run has two"
		}
		return ""
	}
	feature := scenario.OtherHandler.Feature
	switch {
	case s.Other == nil && scenario.Feature != "" && !s.Handler.Claims(scenario.Feature):
		return fmt.Sprintf("two handlers: it is played with --handler %s --handler %s", s.Handler.Name, other.Name)
	case len(s.Handler.Manifests) == 0 || len(other.Manifests) == 0:
		return "cannot be arranged: it requires two handlers"
	case !s.Handler.ReadsQueue():
		return fmt.Sprintf("cannot be arranged: %s reads the metadata of its instance, so that it must be the second of the two handlers", s.Handler.Name)
	case other.Name == s.Handler.Name:
		return fmt.Sprintf("cannot be arranged: both handlers would be %s", other.Name)
	case len(other.Workers.Manifests) > 0:
		return fmt.Sprintf("cannot be arranged: %s has objects of its own for the workers, so that it must be the first of the two handlers", other.Name)
	case feature != "" && !other.Claims(feature):
		return fmt.Sprintf("not supported: the description of %s, the second handler, does not claim %s", other.Name, feature)
	}
	return s.without[other.Name]
}

// PlayedWith names the handler of spotdrill's own that plays a scenario of its cluster, or the two for a
// drill of two; none if each of them skips it.
func PlayedWith(scenario scenarios.Scenario) (handlers []string, err error) {
	for _, name := range handler.Names() {
		s := Session{}
		if s.Handler, err = handler.Load(name); err != nil {
			return nil, err
		}
		if err := s.loadOthers([]scenarios.Scenario{scenario}); err != nil {
			return nil, err
		}
		if other := s.other(scenario); other != nil {
			s.Other = other
			handlers = []string{name, other.Name}
		} else {
			handlers = []string{name}
		}
		if s.NotApplicable(scenario) == "" {
			return handlers, nil
		}
	}
	return nil, nil
}
