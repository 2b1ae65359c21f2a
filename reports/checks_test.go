package reports

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports/timeline"
)

// Every kind of check documents what it requires, what to do if it fails and where to
// look, and the lane that it points to is on the page.
func TestEveryCheckLeadsItsReaderOn(t *testing.T) {
	lanes := map[verdict.Lane]bool{"": true}
	for _, name := range []string{timeline.Handler, timeline.Nodes, timeline.Pods, timeline.Endpoints, timeline.Answers} {
		lanes[verdict.Lane(laneID(name))] = true
	}
	ids := map[verdict.ID]bool{}
	for _, k := range verdict.Kinds() {
		for _, id := range k.IDs() {
			if ids[id] {
				t.Errorf("%s: two checks have this ID", id)
			}
			ids[id] = true
		}
		if !regexp.MustCompile(`^[a-z][A-Za-z]+$`).MatchString(string(k.ID)) || k.Title == "" || !strings.HasSuffix(k.Requires, ".") || k.Fix == "" || k.Look.Text == "" {
			t.Errorf("%s: title %q, requires %q, fix %q, look %q", k.ID, k.Title, k.Requires, k.Fix, k.Look.Text)
		}
		if !lanes[k.Look.Lane] {
			t.Errorf("%s: the page has no lane %q", k.ID, k.Look.Lane)
		}
		if k.Look.Lane == "" && strings.Contains(k.Look.Text, "lane") {
			t.Errorf("%s: it speaks of a lane and names none: %s", k.ID, k.Look.Text)
		}
	}
}

// A check points to its own evidence, also if its name begins like another's. A check
// that could not be judged points to the premise that failed.
func TestWhereToLook(t *testing.T) {
	for _, c := range []struct {
		verdict verdict.Verdict
		want    string
	}{
		{verdict.Verdict{ID: "drained", Check: "drained victim"}, "which pod stayed"},
		{verdict.Verdict{ID: "drainedOnce", Check: "drained once victim"}, "second mark"},
		{verdict.Verdict{ID: "commitPoint", Check: "commit point"}, "deleted before the node was marked"},
		{verdict.Verdict{ID: "budgetKept", Check: "budget of app kept"}, "terminating at the same time"},
		{verdict.Verdict{ID: verdict.IDOfDNSLost, Check: "dns lost (all)", Outcome: verdict.Unknown, Premise: "prober"}, "never left"},
		{verdict.Verdict{ID: "of-another-version"}, "history.jsonl"},
	} {
		if got := (trouble{Verdict: c.verdict}).Look(); !strings.Contains(got, c.want) {
			t.Errorf("%s: look at %q, want %q in it", c.verdict.ID, got, c.want)
		}
	}
}

// docs/checks.md is the reference of all checks.
func TestTheChecksAreDocumented(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Reference: checks\n\nThis page is generated from the checks themselves. A verdict names its check by `id`; the subject (a node, pods, a\n" +
		"notice) is next to it. If a report calls it by other words, these are below the ID. Where a check has verdicts of several IDs, its parameters select one. Checks of scenarios have the parameters that the [scenario reference](scenario-reference.md#check) documents;\nthe others apply to every drill that they can judge.\n")
	for _, group := range []struct {
		title string
		place verdict.Place
	}{{"Checks that scenarios have", verdict.InScenarios}, {"Checks of every drill", verdict.InEveryDrill}, {"Others", verdict.Elsewhere}} {
		fmt.Fprintf(&b, "\n## %s\n\n| ID | What it requires | If it does not pass |\n|---|---|---|\n", group.title)
		for _, k := range verdict.Kinds() {
			if k.Judges == group.place {
				fmt.Fprintf(&b, "| `%s`%s%s | %s | %s |\n", k.ID, verdicts(k), title(k), k.Requires, fixes(k))
			}
		}
	}
	const file = "../docs/checks.md"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is out of date: run `make fix`", file)
	}
}

// verdicts lists the IDs of a check's verdicts, if they are others.
func verdicts(k verdict.Kind) string {
	if len(k.Verdicts) == 0 {
		return ""
	}
	var ids []string
	for _, id := range k.Verdicts {
		ids = append(ids, "`"+string(id)+"`")
	}
	return ": " + strings.Join(ids, ", ")
}

// title is what a verdict is called, if it has other words than the ID.
func title(k verdict.Kind) string {
	letters := regexp.MustCompile(`(^| )(of|the)\b|%s|[^A-Za-z]`).ReplaceAllString(k.Title, "")
	if strings.EqualFold(letters, string(k.ID)) {
		return ""
	}
	return "<br>*" + strings.ReplaceAll(k.Title, "%s", "…") + "*"
}

// fixes are what to do, for each verdict that has a fix of its own.
func fixes(k verdict.Kind) string {
	text := sentence(k.Fix)
	for _, id := range k.IDs() {
		if own := k.Fixes[id]; own != "" {
			text += " `" + string(id) + "`: " + own + "."
		}
	}
	return text
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
