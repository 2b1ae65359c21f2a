package coredns

import (
	"fmt"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// directive is a line: the addresses of a server block, a plugin or a plugin's property.
type directive struct {
	name string
	args []string
	line int         // from 1
	body []directive // nil without braces
}

// plugins returns the plugins of all server blocks, with imported snippets expanded, and
// the names of imported files.
func plugins(text string) (found []directive, imports []string, err error) {
	r := reader{Dispenser: caddyfile.NewDispenser("Corefile", strings.NewReader(text))}
	top, err := r.block(0)
	if err != nil {
		return nil, nil, err
	}
	e := expansion{snippets: map[string][]directive{}}
	for i, d := range top {
		switch {
		case strings.HasPrefix(d.name, "(") && strings.HasSuffix(d.name, ")"):
			e.snippets[strings.Trim(d.name, "()")] = d.body
		case d.name == "import":
			e.imports = append(e.imports, d.args...)
		case d.body != nil:
			err = e.add(d.body, 0)
		case i == 0:
			// A single server block needs no braces: everything that follows belongs to it.
			return e.found, e.imports, e.add(top[1:], 0)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return e.found, e.imports, nil
}

type expansion struct {
	snippets map[string][]directive
	found    []directive
	imports  []string
}

// depthMax limits the nesting of snippets and of braces.
const depthMax = 100

func (e *expansion) add(block []directive, depth int) error {
	for _, d := range block {
		if d.name != "import" {
			e.found = append(e.found, d)
			continue
		}
		if depth == depthMax || len(e.found) > 10_000 {
			return fmt.Errorf("line %d: import %s: snippets import each other endlessly", d.line, strings.Join(d.args, " "))
		}
		for _, name := range d.args[:min(1, len(d.args))] {
			if snippet, ok := e.snippets[name]; ok {
				if err := e.add(snippet, depth+1); err != nil {
					return err
				}
				continue
			}
			e.imports = append(e.imports, name)
		}
	}
	return nil
}

// reader groups CoreDNS's tokens by line and brace.
type reader struct{ caddyfile.Dispenser }

// block reads up to the closing brace, or to the end if depth is 0.
func (r *reader) block(depth int) ([]directive, error) {
	out := []directive{}
	opened := r.Line()
	if depth > depthMax {
		return nil, fmt.Errorf("line %d: more than %d nested braces", opened, depthMax)
	}
	for r.Next() {
		if r.Val() == "}" {
			if depth == 0 {
				return nil, fmt.Errorf("line %d: a closing brace without an opening one", r.Line())
			}
			return out, nil
		}
		d := directive{name: r.Val(), line: r.Line()}
		for r.NextArg() {
			if r.Val() == "{" {
				body, err := r.block(depth + 1)
				if err != nil {
					return nil, err
				}
				d.body = body
				break
			}
			d.args = append(d.args, r.Val())
		}
		out = append(out, d)
	}
	if depth > 0 {
		return nil, fmt.Errorf("line %d: an opening brace without a closing one", opened)
	}
	return out, nil
}
