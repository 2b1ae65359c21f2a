package explore

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// Effect is how a handler fails a variation.
type Effect string

// The effects, the worst first.
const (
	Wrong   Effect = "wrong"   // it does what it must not do
	Looping Effect = "looping" // it repeats calls
	Lost    Effect = "lost"    // what must happen did not happen as long as the play was recorded
	Late    Effect = "late"    // it happened, after the bound and the allowance
)

// Play is a variation, and how often it was played.
type Play struct {
	Scenario      string         `yaml:"scenario" json:"scenario"`
	Perturbations []Perturbation `yaml:"perturbations" json:"perturbations"`
	// Outcomes are those of each time; the first that is a failure is the one of Failed, Effect, Got and History.
	Outcomes []verdict.Outcome `yaml:"outcomes,flow" json:"outcomes"`
	Failed   []verdict.ID      `yaml:"failed,omitempty,flow" json:"failed,omitempty"` // ids of checks, sorted
	Effect   Effect            `yaml:"effect,omitempty" json:"effect,omitempty"`
	Got      string            `yaml:"got,omitempty" json:"got,omitempty"` // of the first check that did not pass
	History  string            `yaml:"history,omitempty" json:"history,omitempty"`
	// New is how many calls came after a call after which no earlier play had them, the first time.
	New int `yaml:"new,omitempty" json:"new,omitempty"`
}

// Outcome is that of all times: it fails if most times do, and passes if each does. It is skipped if its disturbance hit no call.
func (p Play) Outcome() verdict.Outcome {
	count := map[verdict.Outcome]int{}
	for _, o := range p.Outcomes {
		count[o.Known()]++
	}
	switch n := len(p.Outcomes); {
	case n == 0:
		return verdict.Skipped
	case 2*count[verdict.Fail] > n:
		return verdict.Fail
	case count[verdict.Pass] == n:
		return verdict.Pass
	case count[verdict.Skipped] == n:
		return verdict.Skipped
	}
	return verdict.Unknown
}

// Signature groups plays that fail alike: what fails, and at which kind of call.
func (p Play) Signature() string {
	points := make([]string, len(p.Perturbations))
	for i, one := range p.Perturbations {
		points[i], _, _ = strings.Cut(one.Point, " #")
	}
	return fmt.Sprintf("%s: %s, at %s", p.Effect, strings.Join(history.Words(p.Failed), ", "), strings.Join(points, " and "))
}

// Finding is a signature with its plays.
type Finding struct {
	Signature string `yaml:"signature" json:"signature"`
	Plays     []Play `yaml:"plays" json:"plays"` // the one with the fewest perturbations first
}

// Result is what an exploration found.
type Result struct {
	Handler  string `yaml:"handler" json:"handler"` // its name and version
	Scenario string `yaml:"scenario" json:"scenario"`
	// Again is the beginning of the command that plays a variation again; the file of its scenario follows.
	Again string `yaml:"again" json:"again"`
	// Digest is that of the scenario's text: plays of another one do not belong here.
	Digest string `yaml:"digest" json:"digest"`
	// NotJudged are the scenario's checks that need a prober, or instances that are taken.
	NotJudged []string `yaml:"notJudged,omitempty,flow" json:"notJudged,omitempty"`
	Points    []string `yaml:"points" json:"points"`
	// Map are the single perturbations that there are.
	Map   []Perturbation `yaml:"map" json:"map"`
	Plays []*Play        `yaml:"plays" json:"plays"`
	// Followed are the kinds of calls that came one after the other in any play, "patch nodes victim > list pods", in the order in
	// which they were seen.
	Followed []string `yaml:"followed" json:"-"`
	// Seconds is how long was played, without the set-up.
	Seconds float64 `yaml:"seconds" json:"seconds"`
	// Folder is that of the run; empty if it has not begun.
	Folder string `yaml:"-" json:"-"`
}

// Findings are the plays that failed, grouped by their signature, in the order in which they were found.
func (r Result) Findings() (out []Finding) {
	for _, p := range r.Plays {
		if p.Outcome() != verdict.Fail {
			continue
		}
		i := slices.IndexFunc(out, func(f Finding) bool { return f.Signature == p.Signature() })
		if i < 0 {
			i = len(out)
			out = append(out, Finding{Signature: p.Signature()})
		}
		out[i].Plays = append(out[i].Plays, *p)
	}
	for _, f := range out {
		slices.SortStableFunc(f.Plays, func(a, b Play) int { return cmp.Compare(len(a.Perturbations), len(b.Perturbations)) })
	}
	return out
}

// Count is how many plays have that outcome.
func (r Result) Count(outcome verdict.Outcome) (n int) {
	for _, p := range r.Plays {
		if p.Outcome() == outcome {
			n++
		}
	}
	return n
}

// find is the play of that scenario; nil if there is none.
func (r Result) find(scenario string) *Play {
	i := slices.IndexFunc(r.Plays, func(p *Play) bool { return p.Scenario == scenario })
	if i < 0 {
		return nil
	}
	return r.Plays[i]
}

// mustHappen are the checks of what must happen, and repeated those of what must not be repeated. All others are of what must not
// happen.
func mustHappen() []verdict.ID {
	return []verdict.ID{"marked", "drained", "deleted", "queueEmpty", "noMessageLost", "reported", "resumed", "removed", "replaced", "lifecycleCompleted", "takenOver", "notStalled"}
}

func repeated() []verdict.ID {
	return []verdict.ID{"calls", "eventsBounded", "eventsNotRepeated", "evictedOnce", "oneDrainPerCause", "drainedOnce", "retryAfterKept"}
}

// effectOf is how the handler fails, by the checks that failed and the record.
func effectOf(failed []verdict.ID, st *story.Story) Effect {
	effect := Late
	for _, id := range failed {
		switch {
		case slices.Contains(mustHappen(), id):
			if effect == Late && !happened(st) {
				effect = Lost
			}
		case slices.Contains(repeated(), id):
			if effect != Wrong {
				effect = Looping
			}
		default:
			effect = Wrong
		}
	}
	return effect
}

// happened reports whether each node that a notice named was marked and drained in the end, and no message is left.
func happened(st *story.Story) bool {
	for _, put := range st.AllOf(history.NoticePut) {
		if put.Node == "" {
			continue
		}
		if _, marked := st.MarkedAfter(put.Node, put); !marked {
			return false
		}
		for _, p := range st.ToDrain(put.Node, put) {
			if _, left := p.Left(); !left {
				return false
			}
		}
	}
	depth, ok := st.Depth()
	return ok && depth.Numbers[history.Visible]+depth.Numbers[history.Invisible] == 0
}

// ResultFile is what Write writes to a folder.
const ResultFile = "explored.yaml"

// Write writes the result to a folder.
func (r Result) Write(folder string) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("write what was explored: %w", err)
	}
	return files.Replace(folder, ResultFile, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// maxResult bounds the file: a play is some 500 bytes.
const maxResult = 64 << 20

// Load reads what an earlier exploration has written to a folder.
func Load(folder string) (r Result, err error) {
	text, err := files.Read(folder, ResultFile, maxResult)
	if err != nil {
		return r, fmt.Errorf("read what was explored: %w", err)
	}
	err = strict.Decode(filepath.Join(folder, ResultFile), text, &r)
	return r, err
}

// WriteText writes the map of points and perturbations, and the findings.
func (r Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "handler %s, scenario %s: %s, %s\n", r.Handler, r.Scenario, history.Count(len(r.Points), "point"), history.Count(len(r.Map), "variation"))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POINT\tPASS\tFAIL\tUNKNOWN\tFAILED WITH")
	for _, point := range r.Points {
		count, with := map[verdict.Outcome]int{}, []string(nil)
		for _, p := range r.Plays {
			if len(p.Perturbations) != 1 || p.Perturbations[0].Point != point {
				continue
			}
			count[p.Outcome()]++
			if p.Outcome() == verdict.Fail {
				with = append(with, p.Perturbations[0].Kind)
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", point, count[verdict.Pass], count[verdict.Fail], count[verdict.Unknown], strings.Join(with, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings() {
		p := f.Plays[0]
		fmt.Fprintf(w, "\n%s (%s)\n  %s: %v\n  %s\n  again: %s %s\n", f.Signature, history.Count(len(f.Plays), "variation"), p.Scenario, p.Outcomes, p.Got, r.Again, filepath.Join(p.History, p.Scenario+".yaml"))
	}
	_, err := fmt.Fprintf(w, "\n%d of %d played in %.0f s: %d passed, %d failed (%s), %d unknown\n", len(r.Plays), len(r.Map), r.Seconds,
		r.Count(verdict.Pass), r.Count(verdict.Fail), history.Count(len(r.Findings()), "signature"), r.Count(verdict.Unknown))
	return err
}
