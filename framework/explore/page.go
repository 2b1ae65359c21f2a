package explore

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

//go:embed explored.html.tmpl
var pageText string

// PageFile is the map that WritePage writes to a folder.
const PageFile = "explored.html"

// row is a point on the page.
type row struct {
	Point string
	Cells []cell
}

// cell is a variation on the page; empty if it is not possible.
type cell struct{ Class, Mark, Title string }

// page is what the template shows.
type page struct {
	Result
	Kinds []string
	Rows  []row
}

// pageOf sets the points against the kinds of perturbations.
func pageOf(r Result) page {
	p := page{Result: r}
	single := map[string]string{} // the scenario of a perturbation
	for _, v := range r.Map {
		single[v.Point+"\n"+v.Kind] = v.slug()
	}
	for _, k := range kinds(scenarios.Notice{Nodes: []string{""}}) {
		possible := slices.ContainsFunc(r.Map, func(v Perturbation) bool { return v.Kind == k.name })
		if possible && !slices.Contains(p.Kinds, k.name) {
			p.Kinds = append(p.Kinds, k.name)
		}
	}
	for _, point := range r.Points {
		one := row{Point: point}
		for _, kind := range p.Kinds {
			scenario, ok := single[point+"\n"+kind]
			if !ok {
				one.Cells = append(one.Cells, cell{})
				continue
			}
			c := cell{string(verdict.Skipped), "·", scenario}
			if played := r.find(scenario); played != nil {
				o := played.Outcome()
				c = cell{string(o), map[verdict.Outcome]string{verdict.Pass: "✓", verdict.Fail: "✗", verdict.Unknown: "?"}[o], strings.TrimSpace(scenario + " " + played.Got)}
			}
			one.Cells = append(one.Cells, c)
		}
		p.Rows = append(p.Rows, one)
	}
	return p
}

// WritePage writes the map of points and perturbations to a folder.
func (r Result) WritePage(folder string) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	return files.Replace(folder, PageFile, func(w io.Writer) error { return t.Execute(w, pageOf(r)) })
}
