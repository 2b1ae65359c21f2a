package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestDryRunSaysWhatWouldBePlayed(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		want, not []string
	}{
		"the set":                      {nil, []string{"spot-notice-drains-node  39 s", "handler builtin", "set fast, cluster spotdrill: about "}, []string{"critical-pods-go-last"}},
		"by name":                      {[]string{"critical-pods-go-last"}, []string{"critical-pods-go-last"}, []string{"spot-notice-drains-node"}},
		"by pattern":                   {[]string{"--only", "coredns-*", "--skip", "*-lameduck-0s"}, []string{"coredns-drained-lameduck-5s "}, []string{"spot-notice", "lameduck-0s"}},
		"by profile":                   {[]string{"--profile", "INCIDENT,PDB", "--set", "full"}, []string{"coredns-lost-without-handler", "budget-is-kept"}, []string{"spot-notice"}},
		"as JSON":                      {[]string{"--json", "critical-pods-go-last"}, []string{`"scenario": "critical-pods-go-last"`, `"profile": "KARPENTER-ORDER"`, `"seconds": `}, []string{"SCENARIO"}},
		"not claimed":                  {[]string{"--handler", "none"}, []string{"state-stopping-drains-node - skipped: not supported: the description of none does not claim state-change", "spot-notice-drains-node 39 s"}, nil},
		"on a platform":                {[]string{"--platform", "eks-1.34", "--set", "full", "coredns-shut-down-as-configured"}, []string{"coredns-shut-down-as-configured"}, nil},
		"an order that is not claimed": {[]string{"--handler", "nth", "critical-pods-go-last"}, []string{"critical-pods-go-last - skipped: not supported: the description of nth does not claim karpenter-order"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := spotdrill(t, append([]string{"run", "--dry-run"}, c.args...)...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			// Columns are as wide as their texts.
			squeezed := strings.Join(strings.Fields(stdout), " ")
			for _, part := range c.want {
				if !strings.Contains(squeezed, strings.Join(strings.Fields(part), " ")) {
					t.Errorf("%q is not in:\n%s", part, stdout)
				}
			}
			for _, part := range c.not {
				if strings.Contains(stdout, part) {
					t.Errorf("%q is in:\n%s", part, stdout)
				}
			}
		})
	}
}

func TestRerunFailedPlaysWhatDidNotPass(t *testing.T) {
	out := t.TempDir()
	latest := filepath.Join(out, reports.Latest)
	if err := os.Mkdir(latest, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(savedReport)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(latest, reports.YAMLFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	chosen, err := selection{rerunFailed: true}.choose(verdict.Scenarios(), scenarios.Fast, nil, out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range chosen {
		names = append(names, s.Name)
	}
	if want := []string{"spot-notice-drains-node", "state-stopping-drains-node"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if _, err := (selection{rerunFailed: true}).choose(verdict.Scenarios(), scenarios.Fast, []string{"a"}, out); err == nil || !strings.Contains(err.Error(), "use only one of them") {
		t.Errorf("with names as well: %v", err)
	}
}

func TestRerunFailedHasNothingToDoWhereAllPassed(t *testing.T) {
	out := t.TempDir()
	folder, err := reports.NewFolder(out, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Write(reports.New(folder, reports.Handler{Name: "builtin"}, scenarios.Fast, nil)); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := spotdrill(t, "run", "--rerun-failed", "--out", out)
	if code != 0 || stdout != "" || !strings.Contains(stderr, "nothing to play again") {
		t.Errorf("exit code %d, printed %q, reported %q", code, stdout, stderr)
	}
}

// What a run that was interrupted has judged is not played again.
func TestResumePlaysWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../reports/testdata/run")); err != nil {
		t.Fatal(err)
	}
	was, err := reports.Judge(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	left := reports.Entry{}
	left.Scenario, left.Outcome = "spot-notice-drains-node", "unknown"
	was.Add(left)
	was.Environment = map[string]string{"kube-proxy": "iptables"}
	file, err := os.Create(filepath.Join(dir, reports.YAMLFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(was.WriteYAML(file), file.Close()); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := spotdrill(t, "run", "--resume", dir, "--dry-run")
	if code != 0 || !strings.Contains(stdout, "spot-notice-drains-node") || strings.Count(stdout, "\n") != 3 {
		t.Errorf("exit code %d, printed %q, reported %q", code, stdout, stderr)
	}
	// It goes on with the values that it began with, whose preset this build may not have.
	edited, err := os.ReadFile(filepath.Join(dir, reports.YAMLFile))
	if err != nil {
		t.Fatal(err)
	}
	edited = bytes.Replace(edited, []byte("kube-proxy: iptables"), []byte("kube-proxy: iptables\n  platform: eks-2.0"), 1)
	if err := os.WriteFile(filepath.Join(dir, reports.YAMLFile), edited, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := spotdrill(t, "run", "--resume", dir, "--dry-run"); code != exitUsage || !strings.Contains(stderr, `no platform is named "eks-2.0"`) {
		t.Errorf("with a preset of another build: exit code %d, reported %q", code, stderr)
	}
	for _, args := range [][]string{{"spot-notice-drains-node"}, {"--rerun-failed"}, {"--repeat", "2"}} {
		_, stderr, code := spotdrill(t, append([]string{"run", "--resume", dir}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, "--resume plays what is left") {
			t.Errorf("with %v: exit code %d, reported %q", args, code, stderr)
		}
	}
	if _, stderr, code := spotdrill(t, "run", "--resume", t.TempDir()); code != exitUsage || !strings.Contains(stderr, "no history in") {
		t.Errorf("without a run: exit code %d, reported %q", code, stderr)
	}
}

// A scenario that is not in the catalogue is played again from its copy.
func TestRerunFailedFindsScenariosOfOnesOwn(t *testing.T) {
	r := reports.New(reports.Folder{}, reports.Handler{Name: "builtin"}, scenarios.Fast, nil)
	r.Results = []reports.Entry{{History: "mine/attempt-2"}}
	r.Results[0].Scenario, r.Results[0].Outcome = "mine", "unknown"
	want := []string{filepath.Join("out", "latest", "mine", "attempt-2", "mine.yaml")}
	if got := failedIn(r, filepath.Join("out", "latest")); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestExplain(t *testing.T) {
	stdout, stderr, code := spotdrill(t, "explain", "invalid-json-does-not-stop-the-next-notice")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, part := range []string{
		"why:    A message that cannot be read must neither crash", "source: https://docs.aws.amazon.com/",
		"1. message garbage straight into the queue", "3. notice reclaim: spot-interruption for victim",
		"4. wait until no evictable pod is left on victim, at most 2m0s",
		"  handler not restarted: ", "look in handler.log for the panic", "play it: spotdrill run invalid-json-does-not-stop-the-next-notice",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("%q is not in:\n%s", part, stdout)
		}
	}
}
