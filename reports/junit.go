package reports

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	junitCounts
	Suites []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      attribute `xml:"name,attr"`
	Timestamp string    `xml:"timestamp,attr"`
	junitCounts
	// The schema has Skipped here, and not at testsuites.
	Skipped    int             `xml:"skipped,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitCounts struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Time     string `xml:"time,attr"`
}

type junitCase struct {
	Name       attribute       `xml:"name,attr"`
	Class      attribute       `xml:"classname,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property,omitempty"`
	Failure    *junitResult    `xml:"failure"`
	Error      *junitResult    `xml:"error"`
	Skipped    *junitResult    `xml:"skipped"`
}

type junitProperty struct {
	Name  attribute `xml:"name,attr"`
	Value attribute `xml:"value,attr"`
}

type junitResult struct {
	Message attribute `xml:"message,attr"`
	Type    string    `xml:"type,attr,omitempty"`
	Text    string    `xml:",cdata"` // made printable by us: encoding/xml does not do it for CDATA
}

// attribute is a text of others in an attribute: readers show it on pages and in terminals.
type attribute string

// MarshalXMLAttr makes it printable.
func (a attribute) MarshalXMLAttr(name xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: name, Value: printable(string(a))}, nil
}

// WriteJUnit writes the report as JUnit XML: a suite for each profile, a test
// case for each scenario. A Fail is a failure, an Unknown an error, so that
// neither goes green. Measured numbers are properties of their test case, named
// check/number, and the ID of each check is check/id. The XML is valid by the schema
// of Jenkins' xUnit plugin, junit-10, except for these properties: the schema allows
// them for suites only, but pytest and Maven write them for test cases too, and
// readers accept them.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: "spotdrill", junitCounts: countsOf(r.Summary, r.Results)}
	for _, p := range r.Profiles {
		entries := slices.DeleteFunc(slices.Clone(r.Results), func(e Entry) bool { return e.Profile != p.Profile })
		suite := junitSuite{
			Name:        attribute(r.Handler.Name + "." + p.Profile),
			Timestamp:   r.Started.UTC().Format("2006-01-02T15:04:05"),
			junitCounts: countsOf(p.Counts, entries),
			Skipped:     p.Skipped,
			Properties:  []junitProperty{{"handler", attribute(r.Handler.Name)}, {"version", attribute(r.Handler.Version)}, {"set", attribute(r.Set)}, {"run", attribute(r.Run)}},
		}
		for _, e := range entries {
			suite.Cases = append(suite.Cases, r.junitCase(e))
		}
		all.Suites = append(all.Suites, suite)
	}
	return all.write(w)
}

func (s junitSuites) write(w io.Writer) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Report) junitCase(e Entry) junitCase {
	c := junitCase{Name: attribute(e.Scenario), Class: attribute(r.Handler.Name + "." + e.Profile), Time: junitTime(time.Duration(e.Measured)), Properties: propertiesOf(e)}
	switch e.Outcome {
	case verdict.Pass:
	case verdict.Skipped:
		c.Skipped = &junitResult{Message: attribute(reason(e))}
	case verdict.Fail:
		c.Failure = &junitResult{Message: attribute(reason(e)), Type: "fail", Text: r.details(e)}
	default:
		c.Error = &junitResult{Message: attribute(reason(e)), Type: "unknown", Text: r.details(e)}
	}
	return c
}

// propertiesOf are the IDs of an entry's checks, what they measured, and the steps of
// its notices.
func propertiesOf(e Entry) (properties []junitProperty) {
	for _, v := range e.Verdicts {
		properties = append(properties, junitProperty{attribute(v.Check + "/id"), attribute(v.ID)})
		for _, name := range sortedKeys(v.Numbers) {
			properties = append(properties, junitProperty{
				attribute(v.Check + "/" + name), attribute(strconv.FormatFloat(v.Numbers[name], 'f', -1, 64)),
			})
		}
	}
	for _, w := range e.Waterfalls {
		for _, step := range w.Steps {
			properties = append(properties, junitProperty{
				attribute(fmt.Sprintf("waterfall %s %s/%s_seconds", w.Notice, w.Node, strings.ReplaceAll(step.Name, " ", "_"))),
				attribute(strconv.FormatFloat(time.Duration(step.After).Round(time.Millisecond).Seconds(), 'f', -1, 64)),
			})
		}
	}
	for _, line := range e.HandlerPods {
		properties = append(properties, junitProperty{"the handler's pods changed", attribute(line)})
	}
	return properties
}

// reason is the verdict to look at first, in one line.
func reason(e Entry) string {
	first := e.First()
	if first.Outcome.Known() == verdict.Skipped || len(e.Verdicts) == 0 {
		return first.Got
	}
	return first.Check + ": " + first.Got
}

// details are all verdicts other than a pass, and the commands to judge and to play the
// scenario again.
func (r *Report) details(e Entry) string {
	var b strings.Builder
	b.WriteString("\n" + e.Title + "\n")
	writeFindings(&b, e, "")
	if command := r.rejudge(e); command != "" {
		b.WriteString("judge again: " + command + "\n")
	}
	b.WriteString("reproduce: " + r.Reproduce(e) + "\n")
	return foreign.Lines(b.String())
}

func countsOf(c Counts, entries []Entry) junitCounts {
	var total time.Duration
	for _, e := range entries {
		total += time.Duration(e.Measured)
	}
	return junitCounts{Tests: c.Total, Failures: c.Failed, Errors: c.Unknown, Time: junitTime(total)}
}

func junitTime(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
