// Package storm finds the largest storm that a handler survives: as many spot nodes as can get their notices within a time, so
// that each is marked and drained, and its message deleted, before its deadline. The record of the smallest storm that was too
// large shows what the limit is.
package storm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

//go:embed storm.yaml.tmpl
var text string

// MaxNodes is how many nodes a storm can have: others have to be left for their pods, and a fleet has 620 at most.
const MaxNodes = 500

// UsualNodes is how many nodes the largest storm of a search has if nothing else is chosen: more take minutes to join.
const UsualNodes = 200

// MaxOver is the longest time from the first notice to the last: that one still has most of its two minutes.
const MaxOver = 30 * time.Second

// Options define the storms of a search.
type Options struct {
	// Session is the handler, and where it is installed.
	Session session.Options
	Loader  scenarios.Loader
	// Most is how many nodes the largest storm has, at most MaxNodes.
	Most int
	// Pods is how many pods there are for each node; the scheduler spreads them.
	Pods int
	// Over is the time from the first notice to the last.
	Over time.Duration
	// Env are environment variables of the handler's containers, each with the values to search with one after the other.
	Env Env
}

// Env is an environment variable and its values. Without a name, the handler is as its description has it.
type Env struct {
	Name   string
	Values []string
}

// scenario is the storm of that size.
func (o Options) scenario(nodes int) (scenarios.Scenario, error) {
	var out bytes.Buffer
	fleet := nodes + min(max(5, nodes/5), 100)
	err := template.Must(template.New("storm").Parse(text)).Execute(&out, map[string]any{
		"Nodes": nodes, "Fleet": fleet, "Replicas": o.Pods * fleet, "Over": o.Over, "Every": o.Over / time.Duration(nodes),
	})
	if err != nil {
		return scenarios.Scenario{}, err
	}
	return o.Loader.Parse(fmt.Sprintf("storm-of-%d-nodes.yaml", nodes), out.Bytes())
}

// Play is a storm that was played.
type Play struct {
	Nodes   int             `yaml:"nodes" json:"nodes"`
	Outcome verdict.Outcome `yaml:"outcome" json:"outcome"`
	Why     string          `yaml:"why,omitempty" json:"why,omitempty"` // of what did not pass
	Marked  Stage           `yaml:"marked" json:"marked"`
	Drained Stage           `yaml:"drained" json:"drained"`
	Deleted Stage           `yaml:"deleted" json:"deleted"`
	History string          `yaml:"history" json:"history"`
}

// Result is what a search found.
type Result struct {
	Handler string `yaml:"handler" json:"handler"`                     // its name and version
	Setting string `yaml:"setting,omitempty" json:"setting,omitempty"` // NAME=VALUE of an environment variable
	Plays   []Play `yaml:"plays" json:"plays"`
	// Survived is the largest storm that passed; 0 for none. TooLarge is the smallest that failed; 0 for none.
	Survived int `yaml:"survived" json:"survived"`
	TooLarge int `yaml:"tooLarge,omitempty" json:"tooLarge,omitempty"`
	// Limit is the bottleneck in the storm that was too large; nil for none.
	Limit *Limit `yaml:"limit,omitempty" json:"limit,omitempty"`
}

// Known reports whether the search came to its end, and shows something of the handler: no storm was unknown, and this machine
// was not the limit.
func (r Result) Known() bool {
	return len(r.Plays) > 0 && r.Plays[len(r.Plays)-1].judged() && (r.TooLarge == 0 || r.Limit.Bottleneck != Machine)
}

// judged reports whether a storm passed or failed.
func (p Play) judged() bool { return p.Outcome == verdict.Pass || p.Outcome == verdict.Fail }

// Verdict describes what was found, in a sentence.
func (r Result) Verdict() string {
	switch last := len(r.Plays) - 1; {
	case last < 0:
		return "nothing was played"
	case !r.Plays[last].judged():
		return fmt.Sprintf("not known: the storm of %s could not be judged: %s", history.Count(r.Plays[last].Nodes, "node"), r.Plays[last].Why)
	case r.TooLarge == 0:
		return fmt.Sprintf("survives %s, the largest that was played", history.Count(r.Survived, "node"))
	case r.Limit.Bottleneck == Machine:
		return fmt.Sprintf("survives %s; not %d, but of that the limit was %s", history.Count(r.Survived, "node"), r.TooLarge, r.Limit)
	}
	return fmt.Sprintf("survives %s, not %d; the limit is %s", history.Count(r.Survived, "node"), r.TooLarge, r.Limit)
}

// Run searches with each value of the environment variable, in a session of its own. The results hold what is known, also
// after an error; an ended context is not an error of its own.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	values := o.Env.Values
	if o.Env.Name == "" {
		values = []string{""}
	}
	for i := 0; i < len(values) && err == nil && ctx.Err() == nil; i++ {
		var r Result
		r, err = o.search(ctx, values[i])
		results = append(results, r)
	}
	return results, err
}

func (o Options) search(ctx context.Context, value string) (r Result, err error) {
	opts := o.Session
	meta := opts.Handler.Meta()
	r.Handler = meta.Name + " " + meta.Version
	if o.Env.Name != "" {
		r.Setting = o.Env.Name + "=" + value
		opts.Handler.Always = map[string]string{o.Env.Name: value}
	}
	largest, err := o.scenario(o.Most)
	if err != nil {
		return r, err
	}
	opts.Set, opts.System.Kwok = scenarios.Full, true
	run, err := session.New(opts)
	if err != nil {
		return r, err
	}
	if reason := run.NotApplicable(largest); reason != "" {
		return r, fmt.Errorf("no storm can be played: %s", reason)
	}
	broken := run.SetUp(ctx)
	if broken == nil && ctx.Err() == nil {
		r.Survived, r.TooLarge, broken = search(ctx, o.Most, func(nodes int) (verdict.Outcome, error) {
			p, err := o.play(ctx, run, nodes, &r)
			return p.Outcome.Known(), err
		})
	}
	if ctx.Err() != nil {
		broken = nil
	}
	return r, errors.Join(broken, run.Finish(context.WithoutCancel(ctx)))
}

// play plays the storm of that size and adds it to the result.
func (o Options) play(ctx context.Context, run *session.Session, nodes int, r *Result) (p Play, err error) {
	scenario, err := o.scenario(nodes)
	if err != nil {
		return p, err
	}
	run.Scenarios = append(run.Scenarios, scenario)
	entry, err := run.Drill(ctx, scenario)
	if err != nil || ctx.Err() != nil { // it was cut short and shows nothing
		return p, err
	}
	dir := filepath.Join(run.Report().Folder().Path, entry.History)
	p = Play{Nodes: nodes, Outcome: entry.Outcome, History: dir}
	if entry.Outcome != verdict.Pass {
		p.Why = entry.First().Check + ": " + entry.First().Got
	}
	h, err := history.Load(dir)
	if err != nil {
		return p, err
	}
	st := story.Read(scenario, h)
	all := courses(st)
	p.Marked = stage(all, func(c course) *history.Event { return c.marked })
	p.Drained = stage(all, func(c course) *history.Event { return c.drained })
	p.Deleted = stage(all, func(c course) *history.Event { return c.deleted })
	r.Plays = append(r.Plays, p)
	if p.Outcome.Known() == verdict.Fail { // each is smaller than the one before
		r.Limit = new(limitOf(st))
	}
	return p, nil
}

// ResultsFile is what Write writes to a folder.
const ResultsFile = "storms.yaml"

// Write writes the results to a folder, which it makes.
func Write(folder string, results []Result) error {
	text, err := yaml.Marshal(results)
	if err != nil {
		return fmt.Errorf("write the storms: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write the storms: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, ResultsFile), text, 0o644)
}

// WriteText writes a line for each storm, and what each search found.
func WriteText(w io.Writer, results []Result) error {
	for _, r := range results {
		if _, err := fmt.Fprintln(w, strings.TrimSpace("handler "+r.Handler+" "+r.Setting)); err != nil {
			return err
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NODES\tOUTCOME\tMARKED\tDRAINED\tDELETED\tLONGEST DRAIN")
		for _, p := range r.Plays {
			fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%.1f s\n", p.Nodes, p.Outcome, p.Marked.Nodes, p.Drained.Nodes, p.Deleted.Nodes, p.Drained.Slowest)
		}
		if err := table.Flush(); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, r.Verdict()); err != nil {
			return err
		}
	}
	return nil
}
