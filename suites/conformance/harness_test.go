package conformance

import (
	"context"
	"errors"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/labels"
)

// idleScenario is what the self-check plays with a handler that does nothing.
const idleScenario = "spot-notice-drains-node"

// suite is one run of the session as specs.
type suite struct{ *session.Session }

// drill plays one scenario. An error of the harness fails the spec, and ends the suite if
// no other drill can be played.
func (s suite) drill(ctx context.Context, scenario scenarios.Scenario) verdict.Result {
	GinkgoHelper()
	entry, err := s.Drill(ctx, scenario)
	if errors.Is(err, session.ErrOver) {
		AbortSuite(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return entry.Result
}

// noSelfCheck is why the self-check is not played, or "": it needs its scenario in the
// run, and the built-in handler to compare with.
func noSelfCheck(under handler.Description, chosen []scenarios.Scenario) string {
	switch {
	case under.Name != "builtin":
		return "the self-check runs only with the built-in handler"
	case !slices.ContainsFunc(chosen, isIdleScenario):
		return "the run does not include " + idleScenario
	}
	return ""
}

func isIdleScenario(s scenarios.Scenario) bool { return s.Name == idleScenario }

// idleLabels are the labels of the self-check's scenario; none if it is not in the run.
func (s suite) idleLabels() []string {
	if i := slices.IndexFunc(s.Scenarios, isIdleScenario); i >= 0 {
		return labels.Of(s.Scenarios[i])
	}
	return nil
}

// selfCheck plays a scenario with a handler that never reads the queue.
func (s suite) selfCheck(ctx context.Context) verdict.Result {
	GinkgoHelper()
	idle, err := handler.Load("suites/conformance/testdata/idle/handler.yaml")
	Expect(err).NotTo(HaveOccurred())
	chosen, err := verdict.Scenarios().Select(s.Set, []string{idleScenario})
	Expect(err).NotTo(HaveOccurred())
	entry, err := s.SelfCheck(ctx, chosen[0], idle)
	Expect(err).NotTo(HaveOccurred())
	return entry.Result
}

// passed matches a result that is a pass.
func passed() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(r verdict.Result) (bool, error) {
		return r.Outcome == verdict.Pass, nil
	}).WithTemplate("{{.Actual.Scenario}} is {{.Actual.Outcome}}; see the findings above, and the reports")
}
