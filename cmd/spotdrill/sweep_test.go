package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/sweep"
)

const exampleSweep = "../../scenarios/sweeps/lameduck-by-readiness.yaml"

func TestSweepSaysWhatItWouldDrill(t *testing.T) {
	stdout, stderr, code := spotdrill(t, "sweep", exampleSweep, "--dry-run", "--out", t.TempDir())
	if code != 0 || !strings.Contains(stderr, "the missing drills take about ") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, part := range []string{"LAMEDUCK  READINESS", "35s       1s x 1     50s", "0 safe, 0 lose, 16 unknown, 0 impossible", "no setting is known to be safe yet"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("%q is not in:\n%s", part, stdout)
		}
	}
}

func TestSweepAsJSON(t *testing.T) {
	stdout, stderr, code := spotdrill(t, "sweep", exampleSweep, "--dry-run", "--json", "--out", t.TempDir())
	var cells []struct {
		Lameduck float64 `json:"lameduckSeconds"`
		State    string  `json:"state"`
	}
	if err := json.Unmarshal([]byte(stdout), &cells); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s\n%s", code, err, stderr, stdout)
	}
	if last := len(cells) - 1; last != 15 || cells[last].Lameduck != 35 || cells[last].State != "unknown" {
		t.Errorf("%+v", cells)
	}
}

func TestSweepRefusesWhatItCannotDrill(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "lameduck-by-readiness")
	text, err := os.ReadFile(exampleSweep)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "lameduck-by-readiness.yaml")
	for path, text := range map[string]string{
		own: strings.Replace(string(text), "lossRate: 0.0005", "lossRate: 0", 1),
		filepath.Join(results, sweep.ResultsFile): `{"matrix": "sha256:of-another"}` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"accepts 1 arg(s), received 0":                                   {},
		"read matrix: open none.yaml":                                    {"none.yaml"},
		"lossRate: 0 is not more than 0 and less than 1":                 {own},
		`--proxy-mode is "iptabels"; did you mean "iptables"? allowed: `: {exampleSweep, "--dry-run", "--proxy-mode", "iptabels"},
		`no handler is named "bultin"`:                                   {exampleSweep, "--handler", "bultin"},
		"(line 1) are of another base, set, mode, handler ":              {exampleSweep, "--out", dir},
	} {
		stdout, stderr, code := spotdrill(t, append([]string{"sweep"}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%v: exit code %d, want %q; reported %q and printed %q", args, code, want, stderr, stdout)
		}
	}
}
