package scenarios_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

const matrix = `apiVersion: spotdrill.dev/v1alpha1
kind: Sweep
name: mine
base: coredns-drained-lameduck-5s
set: fast
mode: fresh
repeats: 2
confidence: 0.95
lossRate: 0.001
lameduck: [5s, 0s]
readiness: [{period: 1s, failureThreshold: 1}, {period: 10s, failureThreshold: 3}]
`

func TestCellsAreAllCombinationsSmallestFirst(t *testing.T) {
	s, err := verdict.Scenarios().ParseSweep("mine.yaml", []byte(matrix+"replicas: [2, 1]\nplacement: [spot, on-demand]\ngracePeriod: [30s, 5s]\n"))
	if err != nil {
		t.Fatal(err)
	}
	cells := s.Cells()
	if len(cells) != 2*2*2*2*2 {
		t.Errorf("%d cells, want 32", len(cells))
	}
	why := map[string]int{}
	var possible []string
	for _, c := range cells {
		if c.Impossible != "" {
			why[strings.Fields(c.Impossible)[1]]++
			continue
		}
		possible = append(possible, c.Name())
	}
	var want []string
	for _, of := range []string{
		"lameduck-0s-readiness-10sx3-grace-5s", "lameduck-0s-readiness-10sx3-grace-30s", "lameduck-0s-readiness-1sx1-grace-5s",
		"lameduck-0s-readiness-1sx1-grace-30s", "lameduck-5s-readiness-10sx3-grace-30s", "lameduck-5s-readiness-1sx1-grace-30s",
	} {
		want = append(want, of+"-1-on-spot", of+"-2-on-spot")
	}
	if !slices.Equal(possible, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(possible, "\n"), strings.Join(want, "\n"))
	}
	if why["grace"] != 8 || why["victim"] != 12 {
		t.Errorf("impossible: %v", why)
	}
}

// The instance must not be taken while the pod is in lameduck: the matrix would then not
// measure lameduck.
func TestDeadlineOutlastsLameduck(t *testing.T) {
	s, err := verdict.Scenarios().ParseSweep("mine.yaml", []byte(strings.Replace(matrix, "[5s, 0s]", "[5s, 35s, 110s]", 1)+"gracePeriod: [200s]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Cells() {
		want := map[time.Duration]time.Duration{5 * time.Second: 20 * time.Second, 35 * time.Second: 50 * time.Second}[c.Lameduck.D()]
		if want == 0 {
			if c.Impossible != "a pod takes up to 2m5s to terminate, and the instance is gone after 2m0s" {
				t.Errorf("%s: %q", c.Name(), c.Impossible)
			}
			continue
		}
		got, err := s.Scenario(c, 1)
		if err != nil || got.Deadline.Fast.D() != want {
			t.Errorf("%s: deadline %s, %v, want %s", c.Name(), got.Deadline.Fast.D(), err, want)
		}
	}
}

// A generated scenario is loaded like every file.
func TestCellsAreScenarios(t *testing.T) {
	s, err := verdict.Scenarios().ParseSweep("mine.yaml", []byte(matrix))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Scenario(s.Cells()[0], 2)
	if err != nil {
		t.Fatal(err)
	}
	bases, err := verdict.Scenarios().Select(Full, []string{s.Base})
	if err != nil {
		t.Fatal(err)
	}
	base := bases[0]
	if got.Name != "lameduck-0s-readiness-10sx3-grace-30s-2-on-spot-2" || got.CoreDNS.Lameduck != 0 || got.CoreDNS.Readiness.Period.D() != 10*time.Second {
		t.Errorf("%s with %+v", got.Name, got.CoreDNS)
	}
	if len(got.Checks) != 1 || !reflect.DeepEqual(got.Checks[0].Requirement, verdict.Losses{Of: DNS, Mode: "fresh", Max: new(0)}) {
		t.Errorf("checks %+v", got.Checks)
	}
	if got.Source != base.Source || len(got.Steps) != len(base.Steps) || *got.Probe != *base.Probe || got.Deadline.Full != base.Deadline.Full || got.Settle != base.Settle || got.Nodes["victim"] != base.Nodes["victim"] {
		t.Errorf("%+v is not the base beyond its settings", got)
	}
	again, err := verdict.Scenarios().Parse(got.Name+".yaml", got.Text)
	if err != nil || again.Digest() == "" || again.Digest() != got.Digest() {
		t.Errorf("its saved text is read back as %s, %v", again.Digest(), err)
	}
}

func TestInvalidSweep(t *testing.T) {
	for want, change := range map[string][2]string{
		`mine.yaml:7: unknown field "repeat" in the document; did you mean "repeats"? allowed: apiVersion, base, confidence`:      {"repeats:", "repeat:"},
		`mine.yaml:2: kind: "Scenario" is not known; allowed: Sweep`:                                                              {"kind: Sweep", "kind: Scenario"},
		`mine.yaml:3: name: "other" must be the file's name, "mine"`:                                                              {"name: mine", "name: other"},
		`mine.yaml:4: base: unknown scenario "coredns"`:                                                                           {"base: coredns-drained-lameduck-5s", "base: coredns"},
		`mine.yaml:4: base: rebalance-recommendation-drains-node has no probe`:                                                    {"base: coredns-drained-lameduck-5s", "base: rebalance-recommendation-drains-node"},
		`mine.yaml:4: base: read scenario: open none.yaml`:                                                                        {"base: coredns-drained-lameduck-5s", "base: none.yaml"},
		`mine.yaml:5: set: "slow" is not known; allowed: fast, full`:                                                              {"set: fast", "set: slow"},
		`mine.yaml:6: mode: "" is not known; allowed: all, fixed, fresh`:                                                          {"mode: fresh", "mode: ''"},
		`mine.yaml:7: repeats: 0 is not within 1 to 100`:                                                                          {"repeats: 2", "repeats: 0"},
		`mine.yaml:8: confidence: 1 is not within 0.5 to less than 1`:                                                             {"confidence: 0.95", "confidence: 1"},
		`mine.yaml:8: confidence: NaN is not within`:                                                                              {"confidence: 0.95", "confidence: .nan"},
		`mine.yaml:9: lossRate: 0 is not more than 0 and less than 1`:                                                             {"lossRate: 0.001", "lossRate: 0"},
		`mine.yaml:10: lameduck[1]: 1.5s is not a whole number of seconds`:                                                        {"5s, 0s", "5s, 1500ms"},
		`mine.yaml:10: "5" is not a duration`:                                                                                     {"5s, 0s", "5"},
		`mine.yaml:11: readiness[0].period: 0s is not a whole number`:                                                             {"period: 1s", "period: 0s"},
		`mine.yaml:11: readiness[0].failureThreshold: 0 is less than 1`:                                                           {"failureThreshold: 1", "failureThreshold: 0"},
		`mine.yaml:11: unknown field "threshold" in readiness; allowed: failureThreshold, initialDelay, period, timeout`:          {"failureThreshold: 1", "threshold: 1"},
		`mine.yaml:12: replicas[0]: 0 is not within 1 to 10`:                                                                      {"}]\n", "}]\nreplicas: [0]\n"},
		`mine.yaml:12: placement[0]: "nowhere" is not known; did you mean "anywhere"? allowed: spot, on-demand, spread, anywhere`: {"}]\n", "}]\nplacement: [nowhere]\n"},
		`mine.yaml:12: gracePeriod[0]: 0s is not a whole number of seconds, at least 1s`:                                          {"}]\n", "}]\ngracePeriod: [0s]\n"},
	} {
		text := strings.Replace(matrix, change[0], change[1], 1)
		if text == matrix {
			t.Errorf("nothing to replace: %q", change[0])
		}
		if _, err := verdict.Scenarios().ParseSweep("mine.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", change[1], err, want)
		}
	}
}

func TestAllThatIsWrongWithASweepIsReported(t *testing.T) {
	text := strings.NewReplacer("repeats:", "repeat:", "set: fast", "set: slow", "5s, 0s", "5, 1500ms", "kind: Sweep", "kind: Scenario").Replace(matrix)
	_, err := verdict.Scenarios().ParseSweep("mine.yaml", []byte(text))
	for _, want := range []string{
		`mine.yaml:7: unknown field "repeat"`, `mine.yaml:10: "5" is not a duration`, `mine.yaml:2: kind: "Scenario" is not known`, `mine.yaml:5: set: "slow" is not known`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "repeats:") {
		t.Errorf("what only follows from the misspelt field is reported:\n%v", err)
	}
}

func TestSweepsOfTheProductAreValid(t *testing.T) {
	files, err := filepath.Glob("sweeps/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		s, err := verdict.Scenarios().LoadSweep(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range s.Cells() {
			if _, err := s.Scenario(c, 1); c.Impossible != "" || err != nil {
				t.Errorf("%s: %s: %s, %v", file, c.Name(), c.Impossible, err)
			}
		}
		if _, err := verdict.Scenarios().BuiltInSweep(s.Name); err != nil {
			t.Error(err)
		}
	}
}

// A user's base is found relative to the matrix.
func TestBaseBesideTheMatrix(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("catalogue/dns/coredns-drained-lameduck-5s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"own.yaml":  strings.Replace(string(text), "name: coredns-drained-lameduck-5s", "name: own", 1),
		"mine.yaml": strings.Replace(matrix, "base: coredns-drained-lameduck-5s", "base: own.yaml", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verdict.Scenarios().LoadSweep(filepath.Join(dir, "mine.yaml")); err != nil {
		t.Error(err)
	}
}

// A built-in matrix is named, as a scenario and a handler are.
func TestAMatrixByItsName(t *testing.T) {
	for name, want := range map[string]string{
		"lameduck-by-readiness":  "",
		"karpenter-drift":        "",
		"lameduck-by-readyness":  `no matrix is named "lameduck-by-readyness"; did you mean "lameduck-by-readiness"? allowed: `,
		"karpenter-driftt":       `did you mean "karpenter-drift"?`,
		"kubeadm":                `did you mean "kubeadm-and-advice"?`,
		"nothing-of-this":        `no matrix is named "nothing-of-this"; allowed: karpenter-consolidation, `,
		"./lameduck-by-readines": "read matrix",
	} {
		s, err := verdict.Scenarios().LoadSweep(name)
		switch {
		case want == "" && (err != nil || s.Name != name):
			t.Errorf("%s: %q, %v", name, s.Name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
