// Package measured holds what was measured on each platform: how many queries are lost in each way in which a node or a
// CoreDNS pod ends, with the platform's own settings and with the proposed ones. It writes the tables of docs/platforms.md.
package measured

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Plays is how many times each cell is played.
const Plays = 3

// The ways in which a node can end without its kubelet reporting it.
const (
	shutDown = "shutdown"
	powerOff = "power-off"
)

// Way is a way in which a node or a pod of CoreDNS ends.
type Way struct {
	// Name is the word in the record and in labels, Title the one in the table.
	Name, Title string
	// Scenario is the one of the catalogue that is played. It sets no value of CoreDNS but the placement.
	Scenario string
}

// Ways lists every way, in the order of the table.
func Ways() []Way {
	return []Way{
		{"handler-drain", "drained by a handler", "coredns-drained-as-configured"},
		{"kubectl-drain", "`kubectl drain`", "coredns-drained-by-kubectl"},
		{shutDown, "no handler: shut down as configured", "coredns-shut-down-as-configured"},
		{powerOff, "no handler: power off 20 s after the notice", "coredns-lost-without-handler"},
		{"pod-deleted", "pod deleted by the API", "coredns-pod-deleted"},
		{"restart", "rolling restart", "coredns-restarted"},
	}
}

// Settings is whose settings of CoreDNS a cell has.
type Settings string

// The settings: those of the preset, and what spotdrill recommend proposes for them.
const (
	Shipped  Settings = "shipped"
	Proposed Settings = "proposed"
)

// Cell is what was measured of a platform in one way.
type Cell struct {
	Platform string   `yaml:"platform"`
	Way      string   `yaml:"way"`
	Settings Settings `yaml:"settings"`
	// Date is the day in UTC, as 2006-01-02.
	Date string `yaml:"date"`
	// Digest is that of the scenario with the values of the platform: another one means that either has changed since.
	Digest string `yaml:"digest"`
	// CoreDNS are the settings in words.
	CoreDNS string `yaml:"coredns"`
	Plays   []Play `yaml:"plays"`
	// Unjudged is how many attempts could not be judged, because this machine was too busy, besides those that plays are
	// taken from. Those of cells until 2026-11-28 were not counted.
	Unjudged int `yaml:"unjudged,omitempty"`
	// On is the machine and the versions in words.
	On string `yaml:"on"`
}

// Play is one drill.
type Play struct {
	Fresh Ports `yaml:"fresh"`
	Fixed Ports `yaml:"fixed"`
	// AtMost reports whether no attempt could be judged, because this machine was too busy: the cluster lost as many at
	// most as the last one shows, and perhaps none.
	AtMost bool `yaml:"atMost,omitempty"`
}

// Ports is what became of the queries from fresh or from fixed ports.
type Ports struct {
	Asked int `yaml:"asked"`
	Lost  int `yaml:"lost"`
	// Window is the longest window of losses.
	Window strict.Duration `yaml:"window"`
}

// PlayOf is what a drill of Scenario measured. The error is why it cannot be judged.
func PlayOf(r verdict.Result) (play Play, err error) {
	err = errors.New("the drill has no verdict on its queries")
	for _, v := range r.Verdicts {
		switch {
		case v.ID != verdict.IDOfDNSLost && v.ID != verdict.IDOfHarness && v.ID != verdict.IDOfRun:
		case v.ID != verdict.IDOfDNSLost && v.Outcome != verdict.Pass:
			return Play{}, fmt.Errorf("%s: %s", v.Check, v.Got)
		case v.ID == verdict.IDOfDNSLost:
			n := v.Numbers
			if v.Counted != nil {
				n = v.Counted.Numbers()
			}
			// With a premise that does not hold, such as a prober that was late, what it asked bounds nothing.
			bounded := v.Noise && v.Premise == ""
			judged := v.Outcome == verdict.Pass || v.Outcome == verdict.Fail
			if judged || bounded {
				play = Play{portsOf(n, "fresh"), portsOf(n, "fixed"), bounded}
			}
			if err = nil; !judged {
				err = fmt.Errorf("%s: %s", v.Check, v.Got)
			}
		}
	}
	return play, err
}

func portsOf(n map[string]float64, mode string) Ports {
	window := time.Duration(n["window_"+mode+"_max_ms"] * float64(time.Millisecond))
	return Ports{int(n["asked_"+mode]), int(n["lost_"+mode]), strict.Duration(window.Round(time.Millisecond))}
}

// Base is the scenario of a way with the values of a platform. Its digest is that of a cell.
func Base(p *scenarios.Platform, w Way) (scenarios.Scenario, error) {
	loader := verdict.Scenarios()
	loader.Platform = p
	found, err := loader.Select(scenarios.Full, []string{w.Scenario})
	if err != nil {
		return scenarios.Scenario{}, err
	}
	return found[0], nil
}

// Scenario is the base with these settings of CoreDNS, and only the check that PlayOf reads.
func Scenario(base scenarios.Scenario, settings coredns.Settings) (scenarios.Scenario, error) {
	return verdict.Scenarios().Measured(base, base.Name, settings)
}

// Record is what was measured last of each cell.
type Record struct {
	Cells []Cell `yaml:"cells"`
}

// header is the comment at the top of the file.
const header = "# What was measured last on each platform. `make platforms` writes it.\n"

// Read reads a record; one that is not there is empty.
func Read(file string) (Record, error) {
	var r Record
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the record: %w", err)
	}
	if err := strict.Decode(file, data, &r); err != nil {
		return r, fmt.Errorf("read the record: %w", err)
	}
	for _, c := range r.Cells {
		if err := c.valid(); err != nil {
			return r, fmt.Errorf("read the record: %s: %s, %s, %s: %w", file, c.Platform, c.Way, c.Settings, err)
		}
	}
	return r, nil
}

func (c Cell) valid() error {
	_, err := time.Parse(time.DateOnly, c.Date)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(Ways(), func(w Way) bool { return w.Name == c.Way }):
		return fmt.Errorf("there is no such way")
	case c.Settings != Shipped && c.Settings != Proposed:
		return fmt.Errorf("settings are %s or %s", Shipped, Proposed)
	case len(c.Plays) != Plays:
		return fmt.Errorf("it has %d plays, not %d", len(c.Plays), Plays)
	}
	for _, p := range c.Plays {
		for _, of := range []Ports{p.Fresh, p.Fixed} {
			if of.Asked <= 0 || of.Lost < 0 || of.Lost > of.Asked {
				return fmt.Errorf("%d of %d queries cannot be lost", of.Lost, of.Asked)
			}
		}
	}
	return nil
}

// Of is a cell; false if it was never measured.
func (r Record) Of(platform, way string, s Settings) (Cell, bool) {
	i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.same(platform, way, s) })
	if i < 0 {
		return Cell{}, false
	}
	return r.Cells[i], true
}

// Settled reports whether nothing is to be measured for a cell: it was, with the present text of its scenario; or it has
// proposed settings, and nothing is lost as shipped, or no setting of CoreDNS has an effect.
func (r Record) Settled(p *scenarios.Platform, w Way, s Settings, base scenarios.Scenario) bool {
	if _, ok := r.current(p.Name, w, s, base); ok || s == Shipped {
		return ok
	}
	shipped, ok := r.current(p.Name, w, Shipped, base)
	return ok && shipped.lost() == 0 || w.unreported(p)
}

// current is a cell that was measured with the present text of its scenario.
func (r Record) current(platform string, w Way, s Settings, base scenarios.Scenario) (Cell, bool) {
	c, ok := r.Of(platform, w.Name, s)
	return c, ok && c.Digest == base.Digest()
}

// unreported reports whether the kubelet ends with its node before it has reported anything about the pods: without a
// graceful shutdown, it is stopped as every service is. Endpoints then stay until the node controller finds that the node
// is gone, whatever CoreDNS is set to.
func (w Way) unreported(p *scenarios.Platform) bool {
	return w.Name == powerOff || w.Name == shutDown && p.Shutdown == (scenarios.Shutdown{})
}

func (c Cell) same(platform, way string, s Settings) bool {
	return c.Platform == platform && c.Way == way && c.Settings == s
}

// Write puts a cell into the file, in place of an earlier one.
func (r Record) Write(file string, cell Cell) (Record, error) {
	if err := cell.valid(); err != nil {
		return r, fmt.Errorf("write the record: %w", err)
	}
	r.Cells = slices.DeleteFunc(slices.Clone(r.Cells), func(c Cell) bool { return c.same(cell.Platform, cell.Way, cell.Settings) })
	r.Cells = append(r.Cells, cell)
	slices.SortFunc(r.Cells, func(a, b Cell) int {
		order := func(c Cell) string {
			return fmt.Sprintf("%s %d %s", c.Platform, slices.IndexFunc(Ways(), func(w Way) bool { return w.Name == c.Way }), c.Settings)
		}
		return strings.Compare(order(a), order(b))
	})
	// As make verify requires; and settings stay on a line.
	text, err := yaml.Dump(r, yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return r, fmt.Errorf("encode the record: %w", err)
	}
	if err := os.WriteFile(file, append([]byte(header), text...), 0o644); err != nil {
		return r, fmt.Errorf("write the record: %w", err)
	}
	return r, nil
}

// Tonight picks n platforms by the day, so that each has its turn.
func Tonight(all []string, day, n int) (picked []string) {
	for i := range min(n, len(all)) {
		picked = append(picked, all[(day*n+i)%len(all)])
	}
	return picked
}
