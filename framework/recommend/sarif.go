package recommend

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/foreign"
)

// sarifLog is what SARIF 2.1.0 has of the findings: https://docs.oasis-open.org/sarif/sarif/v2.1.0/
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver struct {
			Name           string      `json:"name"`
			Version        string      `json:"version,omitempty"`
			InformationURI string      `json:"informationUri"`
			Rules          []sarifRule `json:"rules"`
		} `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID               string    `json:"id"`
	ShortDescription sarifText `json:"shortDescription"`
	Help             sarifText `json:"help"`
	HelpURI          string    `json:"helpUri"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Kind      string          `json:"kind"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

// SARIF are the findings as a log of SARIF 2.1.0, to be written as JSON. A rule that is broken fails with the level warning; one that could not be
// evaluated is open, without a level, as the standard has it. Version is that of spotdrill.
func (a Advice) SARIF(version string) any {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	driver := &run.Tool.Driver
	driver.Name, driver.Version, driver.InformationURI, driver.Rules = "spotdrill", version, "https://github.com/spotdrill/spotdrill", []sarifRule{}
	for _, f := range a.Findings {
		i := slices.IndexFunc(driver.Rules, func(r sarifRule) bool { return r.ID == f.Rule })
		if i < 0 {
			i = len(driver.Rules)
			driver.Rules = append(driver.Rules, sarifRule{f.Rule, sarifText{f.Why}, sarifText{f.Why + "\nsource: " + f.Source + after("\ndrill: spotdrill run ", f.Drill)}, f.Source})
		}
		r := sarifResult{RuleID: f.Rule, RuleIndex: i, Kind: "fail", Level: "warning", Message: sarifText{foreign.Lines(f.Got + "; " + f.Why + "\nfix: " + f.Fix)}}
		if f.Unknown {
			r.Kind, r.Level = "open", "none"
		}
		if f.At != nil {
			var at sarifLocation
			at.PhysicalLocation.ArtifactLocation.URI = (&url.URL{Path: filepath.ToSlash(f.At.File)}).String()
			if f.At.Line > 0 {
				at.PhysicalLocation.Region = &sarifRegion{f.At.Line}
			}
			r.Locations = []sarifLocation{at}
		}
		run.Results = append(run.Results, r)
	}
	return sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// WriteGitHub writes the findings as annotations of GitHub: warnings for rules that are broken, notices for those that could
// not be evaluated. All text of others is escaped, so that each line is one annotation.
func (a Advice) WriteGitHub(w io.Writer) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range a.grouped() {
		level := "warning"
		if f.Unknown {
			level = "notice"
		}
		var at string
		if f.At != nil && f.At.File != stdin {
			at = "file=" + property.Replace(foreign.Line(f.At.File)) + ","
			if f.At.Line > 0 {
				at += fmt.Sprintf("line=%d,", f.At.Line)
			}
		}
		text := f.Got + after("\nwhy: ", f.Why) + "\nfix: " + f.Fix + after("\nsource: ", f.Source) + after("\ndrill: spotdrill run ", f.Drill)
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", level, at, property.Replace(foreign.Line(f.Rule)), data.Replace(foreign.Page(text))); err != nil {
			return err
		}
	}
	return nil
}
