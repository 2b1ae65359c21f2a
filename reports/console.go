package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// Console prints the progress of a run. On a terminal each running scenario has a line
// that is kept up to date; elsewhere every line is written once.
type Console struct {
	colour bool
	total  int
	begun  int
	head   string // of the announced scenario, until its result is printed
	live   *lives // nil if out is no terminal, or nothing runs

	mu  sync.Mutex // of out, with which a live line is written
	out io.Writer
}

// NewConsole prints to out, which announces total scenarios; 0 if that is not known.
func NewConsole(out io.Writer, total int) *Console {
	colour := os.Getenv("NO_COLOR") == "" && terminal(out) // see no-color.org
	return &Console{out: out, colour: colour, total: total}
}

// terminal reports whether out is a terminal on which a line can be erased.
func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Write prints text of others: it is made harmless, and does not end up within a live line.
func (c *Console) Write(text []byte) (int, error) {
	if err := c.write([]byte(foreign.Lines(string(text)))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (c *Console) write(text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		_, _ = io.WriteString(c.out, wipe(len(c.live.rows)))
	}
	_, err := c.out.Write(text)
	return err
}

// printf prints a format of ours. Texts in it can be of others, but for those that paint made.
func (c *Console) printf(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = printable(text)
		}
	}
	_ = c.write(fmt.Appendf(nil, format, args...))
}

// painted is a text with our own escape sequences.
type painted string

// Begin announces a scenario, which begins now; left is about how long it and all that follow take, 0 if
// the scenario is not played. A log, which shows whole lines, gets one: "[3/13] name begins, 4 min left".
func (c *Console) Begin(scenario string, left time.Duration) {
	c.begun++
	of := ""
	if c.total > 0 {
		of = fmt.Sprintf("/%d", c.total)
	}
	c.head = fmt.Sprintf("[%d%s] %s", c.begun, of, scenario)
	switch {
	case terminal(c.out):
		c.follow(scenario, c.head, left)
	case left > 0:
		c.printf("%s begins, %s\n", c.head, timeLeft(left))
	}
}

// timeLeft is "4 min left".
func timeLeft(left time.Duration) string {
	if left < time.Minute {
		return "less than 1 min left"
	}
	return fmt.Sprintf("%.0f min left", left.Minutes())
}

// Note prints a line about what is going on.
func (c *Console) Note(line string) { c.printf("    %s\n", line) }

// Conclude prints the result of an announced drill that is in no report.
func (c *Console) Conclude(how string) {
	c.announced()
	c.printf("%s\n", how)
}

// announced puts the cursor after the announced scenario, in a line that stays.
func (c *Console) announced() {
	c.unfollow()
	if c.head == "" {
		c.printf("    ")
		return
	}
	c.printf("%s … ", c.head)
	c.head = ""
}

// End prints the result of the announced scenario; verdicts other than a pass
// follow in detail.
func (c *Console) End(e Entry) {
	c.announced()
	c.printf("%s", c.paint(e.Outcome))
	if e.Outcome == verdict.Skipped {
		c.printf(": %s\n", reason(e))
		return
	}
	c.printf(" %s", wholeSeconds(e.Measured))
	if e.Expected > 0 {
		c.printf(" (expected %s)", wholeSeconds(e.Expected))
	}
	if e.Attempts > 1 {
		c.printf(", attempt %d", e.Attempts)
	}
	if e.PlayedWith != "" {
		c.printf(", together with %s", e.PlayedWith)
	}
	if e.Lane > 0 {
		c.printf(", in lane %d", e.Lane)
	}
	if e.LaneAttempt != "" {
		c.printf(", after %s", e.LaneAttempt)
	}
	if e.Other != "" {
		c.printf(", second handler %s", e.Other)
	}
	if len(e.Phases) > 0 {
		c.printf(": %s", e.Phases)
	}
	c.printf("\n")
	if e.Outcome != verdict.Pass {
		writeFindings(c, e, "    ")
	}
	c.losses(e)
}

// losses prints the causes of the service's lost queries, if there are any.
func (c *Console) losses(e Entry) {
	if len(e.Losses) > 0 {
		c.printf("    dns: %s\n", loss.Explain(e.Losses))
	}
	if len(e.ApplicationLosses) > 0 {
		c.printf("    application: %s\n", loss.Explain(e.ApplicationLosses))
	}
}

// Verdicts prints all verdicts of an entry, first those that passed.
func (c *Console) Verdicts(e Entry) {
	c.printf("%s %s\n", c.paint(e.Outcome), e.Scenario)
	for _, v := range e.Verdicts {
		if v.Outcome == verdict.Pass {
			c.printf("    %s: pass: %s\n", v.Check, printable(v.Got))
		}
	}
	writeFindings(c, e, "    ")
	c.losses(e)
}

// Summary prints the DNS windows, the counts and the paths of the reports. Its last
// line is that of Counts.
func (c *Console) Summary(r *Report) {
	c.Windows(r.Results)
	c.printf("\nhandler %s, set %s: setup %s, drills %s\n", strings.TrimSpace(r.Handler.Name+" "+r.Handler.Version), r.Set,
		wholeSeconds(r.Timings.Setup), wholeSeconds(r.Timings.Drills))
	if name := r.Environment[history.PlatformKey]; name != "" {
		c.printf("with the values of platform %s. Not here: %s\n", printable(name), printable(r.Environment[history.PlatformLacksKey]))
	}
	if r.Timings.Overhead > 0 {
		c.printf("drills in seconds: %s; %.2f times what they recorded (baseline, steps, settle)\n", r.Timings.Phases, r.Timings.Overhead)
	}
	if unused := r.unused(); len(unused) > 0 {
		c.printf("%d of %s that no request of this run used:\n", len(unused), history.Count(len(r.Rights), "right"))
		for _, right := range unused[:min(len(unused), rightsShown)] {
			c.printf("    %s\n", printable(right.String()))
		}
		if more := len(unused) - rightsShown; more > 0 {
			c.printf("    and %d more, in %s\n", more, HTMLFile)
		}
	}
	for _, file := range []string{HTMLFile, YAMLFile, JUnitFile} {
		c.printf("%s\n", filepath.Join(r.folder.Path, file))
	}
	c.notPassed(r)
	c.unplayed(r)
	if r.Core.Total > 0 && r.Extended.Total > 0 {
		c.printf("core: %s; extended: %s\n", r.Core, r.Extended)
	}
	c.printf("%s\n", r.Summary)
}

// notPassed repeats what did not pass and why: people see the end of a long log
// first.
func (c *Console) notPassed(r *Report) {
	for _, e := range r.notPassed() {
		if r.EndedEarly != "" && e.unplayed() {
			continue
		}
		c.printf("%s %s: %s\n", c.paint(e.Outcome), e.Scenario, printable(reason(e)))
		if fix := e.First().Fix(); fix != "" {
			c.printf("    fix: %s\n", fix)
		}
		if command := r.rejudge(e); command != "" {
			c.printf("    judge again: %s\n", command)
		}
	}
}

// unplayed shows why the run ended early, and how to play the rest.
func (c *Console) unplayed(r *Report) {
	if r.EndedEarly == "" {
		return
	}
	c.printf("the run ended early: %s\n", printable(r.EndedEarly))
	if left := r.unplayed(); len(left) > 0 {
		c.printf("    %d of %s not played; %s\n", len(left), history.Count(len(r.Results), "drill"), r.goOn())
	}
}

// rightsShown is how many unused rights the console lists.
const rightsShown = 8

// measuredHead heads the rows of measuredRows.
var measuredHead = []string{"DNS", "lameduck", "readiness", "fresh: lost, window", "fixed: lost, window", "control lost"}

// measuredRows are the lost queries of each drill that had a prober.
func measuredRows(entries []Entry) (rows [][]string) {
	for _, e := range entries {
		if e.DNS == nil {
			continue
		}
		lameduck, readiness := "-", "-" // in a cluster that is not spotdrill's own, they are as they were
		if c := e.CoreDNS; c.Replicas > 0 {
			lameduck, readiness = c.Lameduck.D().String(), fmt.Sprintf("%s x %d", c.Readiness.Period.D(), c.Readiness.FailureThreshold)
		}
		row := func(name, lameduck, readiness string, m *loss.Measurement) {
			rows = append(rows, []string{name, lameduck, readiness, lostCell(m.Fresh), lostCell(m.Fixed), share(m.Control)})
		}
		row(e.Scenario, lameduck, readiness, e.DNS)
		if tcp := e.DNS.OverTCP(); tcp != nil {
			row("  over TCP", "", "", tcp)
		}
		if e.Application != nil {
			row("  its application", "", "", e.Application)
		}
	}
	return rows
}

// Windows prints a table of the lost queries of each drill that had a prober.
func (c *Console) Windows(entries []Entry) {
	rows := measuredRows(entries)
	if len(rows) == 0 {
		return
	}
	c.printf("\n")
	table := tabwriter.NewWriter(c, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{measuredHead}, rows...) {
		_, _ = fmt.Fprintln(table, foreign.Lines(strings.Join(row, "\t")))
	}
	_ = table.Flush()
}

// lostCell is a stream's loss and its longest window: "3 of 45000, 0.440s".
func lostCell(s loss.Stream) string {
	longest, ok := s.Longest()
	if !ok {
		return share(s)
	}
	cell := share(s) + ", " + history.Seconds(longest.Length())
	if longest.Open {
		cell += " or more"
	}
	return cell
}

func share(s loss.Stream) string {
	if s.Asked == 0 {
		return "never asked"
	}
	return fmt.Sprintf("%d of %d", s.Lost, s.Asked)
}

func wholeSeconds(s Seconds) string { return fmt.Sprintf("%.0f s", time.Duration(s).Seconds()) }

func (c *Console) paint(o verdict.Outcome) painted {
	o = o.Known()
	if !c.colour {
		return painted(o)
	}
	const red, green, yellow, grey = 31, 32, 33, 90
	colour := map[verdict.Outcome]int{verdict.Pass: green, verdict.Fail: red, verdict.Unknown: yellow, verdict.Skipped: grey}[o]
	return painted(fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, o))
}

// eventLine is an event as people read it: "+12.345s node.cordoned worker3".
func eventLine(e history.Event) string {
	parts := append([]string{"+" + history.Seconds(e.At), string(e.Kind)}, e.Words()...)
	if e.Until != nil {
		parts = append(parts, "until +"+history.Seconds(*e.Until))
	}
	if e.Message != "" {
		parts = append(parts, "message "+e.Message)
	}
	if e.Notice != "" {
		parts = append(parts, "notice "+e.Notice)
	}
	if e.Kind == history.ClusterEvent && e.Owner != "" {
		parts = append(parts, "(by "+e.Owner+")")
	}
	if e.Fault != "" {
		parts = append(parts, "fault "+e.Fault)
	}
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", e.Status))
	}
	for _, name := range sortedKeys(e.Numbers) {
		parts = append(parts, fmt.Sprintf("%s=%g", name, e.Numbers[name]))
	}
	return printable(strings.Join(parts, " "))
}

// printable is a text of others in one line. Every writer of this package goes through it.
func printable(s string) string { return foreign.Line(s) }

func sortedKeys[K cmp.Ordered](m map[K]float64) []K { return slices.Sorted(maps.Keys(m)) }

// writeFindings writes every verdict other than a pass: what was wanted, what
// was seen, which records show it and what to change. The writer keeps its own errors.
func writeFindings(w io.Writer, e Entry, indent string) {
	if e.Deviation != "" {
		_, _ = fmt.Fprintf(w, "%sdocumented deviation of %s: %s\n", indent, printable(e.Handler.Name), printable(e.Deviation))
	}
	for _, line := range e.HandlerPods {
		_, _ = fmt.Fprintf(w, "%sthe handler's pods changed: %s\n", indent, line)
	}
	// After an error of the harness most checks are unknown: their names do, after that error.
	broken := e.First().ID == verdict.IDOfHarness
	if broken {
		writeFinding(w, e, e.First(), indent)
	}
	var left []string
	for _, v := range e.Verdicts {
		switch {
		case v.Outcome == verdict.Pass, broken && v.ID == verdict.IDOfHarness:
		case broken:
			left = append(left, printable(v.Check))
		default:
			writeFinding(w, e, v, indent)
		}
	}
	if len(left) > 0 {
		_, _ = fmt.Fprintf(w, "%s%s could not be evaluated then: %s\n", indent, history.Count(len(left), "other check"), strings.Join(left, ", "))
	}
}

func writeFinding(w io.Writer, e Entry, v verdict.Verdict, indent string) {
	_, _ = fmt.Fprintf(w, "%s%s: %s\n%s  want: %s\n%s  got:  %s\n", indent, printable(v.Check), v.Outcome.Known(), indent, printable(v.Want), indent, printable(v.Got))
	for _, seq := range v.Evidence {
		if line := e.evidence[seq].line; line != "" {
			_, _ = fmt.Fprintf(w, "%s  #%d %s\n", indent, seq, line)
		}
	}
	if fix := v.Fix(); fix != "" {
		_, _ = fmt.Fprintf(w, "%s  fix:  %s\n", indent, fix)
	}
}
